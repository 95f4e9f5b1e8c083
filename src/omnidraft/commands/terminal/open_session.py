"""Open a bundle as the command line asks for it, and save on exit what the session learned."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from omnidraft.commands.terminal.options import signer
from omnidraft.commands.terminal.progress import loading
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.commands.terminal.stop_signals import ends_at_once
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.profiles import Profile, profile_of
from omnidraft.runtime.bundle.bundle import MANIFEST, Bundle
from omnidraft.runtime.bundle.hashes import Verify
from omnidraft.runtime.bundle.jinja_template import template_of
from omnidraft.runtime.bundle.memory import available_bytes, memory_need, why_plain
from omnidraft.runtime.bundle.placement import placed
from omnidraft.runtime.device.device_costs import Measure
from omnidraft.runtime.session.api import GenerationConfig, LanguageModel, TextSession
from omnidraft.runtime.session.language_model import LoadOptions
from omnidraft.runtime.traces.trace_reader import segments_of
from omnidraft.runtime.vocab.cache_store import check_cache_place, is_of_another_pair
from omnidraft.sync.installed import adapter_in_use, read_installed


@dataclass(frozen=True)
class SessionOptions:
    """How to open a session.

    Attributes:
        load: how to load the bundle; the drafter is left out, too, where the memory does not suffice.
        adapter: a file, a directory of `sync pull`, or one of `learn --prompts`, whose n-grams are the cache
            to begin with where no other is given.
    """

    load: LoadOptions
    bitwise: bool = False
    cache: Path | None = None
    adapter: Path | None = None
    trace: Path | None = None


def session_options(
    file: SettingsFile,
    *,
    threads: int | None = None,
    cache: Path | None = None,
    adapter: Path | None = None,
    trace: Path | None = None,
) -> SessionOptions:
    """How a command was asked to open its session, by its options and its file of settings.

    Raises:
        SettingError: a value is outside its range.
    """
    load = load_options(file, threads)
    return SessionOptions(load, file.switch("bitwise", False), cache, adapter, trace)


def load_options(file: SettingsFile, threads: int | None = None) -> LoadOptions:
    """How to load a bundle: by `--threads`, else by the file of settings, else as usual.

    Raises:
        SettingError: a value is outside its range.
    """
    usual = LoadOptions()
    load = LoadOptions(
        threads=file.integer("threads", usual.threads),
        drafter=file.switch("drafter", usual.drafter),
        target_on=file.text("target_on", usual.target_on),
        drafter_on=file.text("drafter_on", usual.drafter_on),
        public_key=file.path("public_key") or signer(),
        verify=cast(Verify, file.text("verify", usual.verify)),
        measure=cast(Measure, file.text("measure", usual.measure)),
    )
    with file.named():
        load.check()
    if threads is not None:
        load = replace(load, threads=threads)
        load.check()
    return load


def open_session(path: Path, options: SessionOptions, config: GenerationConfig) -> TextSession:
    """Open a session, and list on standard error the options that are not used, and why.

    Args:
        path: the bundle.
        config: of the generations: a machine is timed for `-k auto` alone.

    Raises:
        OmnidraftError: the bundle or one of the files is refused.
    """
    if options.cache is not None:
        check_cache_place(options.cache)
    if options.trace is not None:
        tell(_others_in(options.trace))
    timed = config.num_draft_tokens == "auto" and config.mode != "plain"
    if not timed and options.load.measure == "auto":
        options = replace(options, load=replace(options.load, measure="never"))
    with loading(path.name):
        session, notices = _opened(path, options, asks_drafter=config.asks_drafter and not config.copies)
    tell(notices)
    return session


def _others_in(trace: Path) -> Iterator[str]:
    """A sentence where a trace is going to be recorded among files of another kind."""
    if (trace / MANIFEST).is_file():
        raise SettingError(f"--trace {trace} is a bundle", "give another directory for the recordings")
    try:
        foreign = trace.is_dir() and not segments_of(trace) and any(trace.iterdir())
    except OSError:  # opening the trace says why nothing can be recorded there
        return
    if foreign:
        yield f"{trace} has other files, which stay; the trace is in the files trace-*.odt beside them"


def _opened(path: Path, options: SessionOptions, *, asks_drafter: bool) -> tuple[TextSession, list[str]]:
    bundle = options.load.open(path)
    if asks_drafter and bundle.drafter.is_absent:
        raise SettingError(
            f"{bundle.path.name} has no drafter, which --mode and -k ask for",
            "leave both out, and it copies from its text; or export it without --drafter none",
        )
    no_drafter = _why_no_drafter(options.load, bundle) if options.load.drafter else None
    load = replace(options.load, drafter=options.load.drafter and no_drafter is None)
    with ends_at_once():  # loading a damaged graph may take for ever, and nothing is open yet
        loaded = load.load(bundle)
    adapter, cache, unused = learned_files(options.adapter, options.cache, bundle)
    session = TextSession(loaded, cache=cache, adapter=adapter, bitwise=options.bitwise, trace=options.trace)
    session.template = template_of(bundle)
    notices = [no_drafter, _timed(loaded, load), *(each.message for each in session.notices), unused]
    return session, [notice for notice in notices if notice]


def _timed(loaded: LanguageModel, load: LoadOptions) -> str | None:
    """That this machine was timed, and why; None where it was not, or where that was asked for."""
    if load.measure != "auto" or loaded.device is None or loaded.device.source != "measured":
        return None
    other = loaded.bundle.measured_on
    costs = "name no machine" if other is None else "are of another machine, place or number of threads"
    return f"timed this machine for -k auto: the costs of the bundle {costs}"


def _why_no_drafter(load: LoadOptions, bundle: Bundle) -> str | None:
    """Why there is too little memory for the drafter; None where there is enough."""
    there = placed(bundle, target_on=load.target_on, drafter_on=load.drafter_on)
    needs = memory_need(there), memory_need(there, drafter=False)
    return why_plain(needs[0].total, needs[1].total, available_bytes())


def learned_files(
    adapter: Path | None, cache: Path | None, bundle: Bundle
) -> tuple[Path | None, Path | None, str | None]:
    """The adapter and the n-gram cache to begin with, and a sentence about what is not used."""
    if adapter is None or not adapter.is_dir() or _is_other_directory(adapter):
        return None if adapter is None else adapter_file(adapter), cache, None
    learned, unused = learned_of(adapter, bundle), None
    if cache is not None:
        unused = f"the n-grams of --adapter {adapter} are not used, since --cache {cache} was given"
    elif not learned.adapter.is_file():
        unused = f"{adapter} has no adapter of this target, only n-grams"
    return existing(learned.adapter), cache or existing(learned.cache), unused


def _is_other_directory(path: Path) -> bool:
    return (path / "adapter_config.json").is_file() or read_installed(path) is not None


def adapter_file(path: Path) -> Path | None:
    """The file of an adapter as a user names it: a file, or a directory of `sync pull`.

    Returns:
        None where the directory's drafter has no adapter in use.

    Raises:
        SettingError: the path is an adapter of another kind; the remedy names the command for it.
        SyncError: the directory holds nothing that was pulled.
    """
    if (path / "adapter_config.json").is_file() or path.name == "adapter_model.safetensors":
        directory = path if path.is_dir() else path.parent
        raise SettingError(
            f"{path} is an adapter that peft saved",
            f"convert it with `omnidraft adapter convert {directory} BUNDLE -o FILE`",
        )
    return adapter_in_use(path) if path.is_dir() else path


def learned_of(place: Path, bundle: Bundle) -> Profile:
    """What `omnidraft learn --prompts` learned of a bundle's target.

    Raises:
        SettingError: it learned nothing of that target.
    """
    if (place / MANIFEST).is_file():
        raise SettingError(
            f"{place} is a bundle, not an adapter",
            "give FILE.safetensors, or a directory of `learn --prompts` or `sync pull`",
        )
    profile = profile_of(place, bundle)
    if not profile.cache.is_file():
        raise SettingError(
            f"{place} has nothing that was learned of the target of {bundle.path.name}",
            "run `omnidraft learn --prompts` with it first, or give the file of an adapter",
        )
    return profile


def existing(path: Path) -> Path | None:
    """The path, if it is a file; else None."""
    return path if path.is_file() else None


@contextmanager
def saved_on_exit(session: TextSession, cache: Path | None) -> Iterator[None]:
    """On exit, also on Ctrl-C: save the n-gram cache if it has a file, and close the trace."""
    try:
        yield
    finally:
        # A cache of another pair was told when the session began.
        if cache is not None and not is_of_another_pair(cache, session.vocab_map):
            replaced = session.save_cache(cache)
            tell([f"{cache} was damaged and is kept as {replaced}"] if replaced else [])
        if session.trace is not None:
            session.trace.close()
            tell([session.trace.problem] if session.trace.problem else [])
        tell(_unsound(session))


def _unsound(session: TextSession) -> Iterator[str]:
    rounds = 0 if session.answer is None else session.answer.statistics.unsound
    if rounds:
        remedy = "take its adapter away" if "drafter" in session.adapters else "export the bundle again"
        yield (
            f"the drafter gave numbers that are not finite in {counted(rounds, 'round')} and drafted nothing "
            f"there, which changes the speed and not the text; {remedy}"
        )


def tell(notices: Iterable[str]) -> None:
    """Print sentences on standard error."""
    for notice in notices:
        sys.stderr.write(f"omnidraft: {notice}\n")
