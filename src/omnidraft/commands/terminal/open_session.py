"""Open a bundle as the command line asks for it, and save on exit what the session learned."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from omnidraft.commands.terminal.loading import loading
from omnidraft.commands.terminal.progress import progress_bar
from omnidraft.commands.terminal.sizes import size
from omnidraft.commands.terminal.stop_signals import ends_at_once
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.profiles import Profile, profile_of
from omnidraft.packing.unpack_once import KEPT, unpack_once
from omnidraft.runtime.archive.open_archive import is_archive, open_archive
from omnidraft.runtime.bundle.bundle import MANIFEST, Bundle, open_bundle
from omnidraft.runtime.bundle.hashes import VERIFIES
from omnidraft.runtime.bundle.jinja_template import template_of
from omnidraft.runtime.bundle.memory import available_bytes, memory_need, why_plain
from omnidraft.runtime.bundle.placement import CPU_GRAPH, placed
from omnidraft.runtime.device.device_costs import MEASURES
from omnidraft.runtime.session.api import GenerationConfig, LoadedBundle, Session, load_bundle
from omnidraft.runtime.traces.trace_reader import segments_of
from omnidraft.runtime.vocab.cache_store import check_cache_place, is_of_another_pair
from omnidraft.sync.installed import adapter_in_use

AllowedValue = TypeVar("AllowedValue", bound=str)
_FILES = ("cache", "public_key", "adapter", "trace", "profile")  # options that name a file or a directory


@dataclass(frozen=True)
class SessionOptions:
    """A bundle, and how to open it.

    Attributes:
        path: the bundle, or an archive of one.
        threads, target_on, drafter_on, public_key: see `load_bundle`.
        drafter: load the drafter, if the memory suffices.
        cache, adapter, bitwise, trace: see `Session`; `adapter` may also be a directory of `sync pull`.
        profile: a directory of `omnidraft adapt`, whose adapter and n-grams the session begins with.
        asks_drafter: whether the generations can only draft with the drafter.
        verify, measure: see `load_bundle`; a value that is not one of theirs is refused.
    """

    path: Path
    threads: int | None = None
    drafter: bool = True
    cache: Path | None = None
    target_on: str = CPU_GRAPH
    drafter_on: str = CPU_GRAPH
    public_key: Path | None = None
    adapter: Path | None = None
    bitwise: bool = False
    trace: Path | None = None
    profile: Path | None = None
    asks_drafter: bool = False
    verify: str = "auto"
    measure: str = "auto"


def session_options(context: typer.Context, config: GenerationConfig) -> SessionOptions:
    """How a command was asked to open its bundle: a parameter of it sets the field that has its name.

    Args:
        context: of the command.
        config: of the generations; see `measure_for`.
    """
    names, given = {field.name for field in fields(SessionOptions)}, context.params
    values: dict[str, Any] = {name: value for name, value in given.items() if name in names}
    for name in _FILES:  # click has the texts
        values[name] = None if given[name] is None else Path(given[name])
    return SessionOptions(
        path=Path(given["bundle"]),
        drafter=not given["no_drafter"],
        asks_drafter=config.asks_drafter and not config.copies,
        **values | {"measure": measure_for(config, given["measure"])},
    )


def open_session(options: SessionOptions) -> Session:
    """Open a session, and tell on standard error what of the options is not used, and why.

    Raises:
        OmnidraftError: the bundle or one of the files is refused.
    """
    if options.cache is not None:
        check_cache_place(options.cache)
    if options.trace is not None:
        tell(_others_in(options.trace))
    directory = bundle_directory(options.path, options.public_key)
    with loading(options.path.name):
        session, notices = _opened(replace(options, path=directory))
    tell(notices)
    return session


def _others_in(trace: Path) -> Iterator[str]:
    """A sentence where a trace is going to be recorded among files of another kind.

    Raises:
        SettingError: the directory is a bundle.
    """
    if (trace / MANIFEST).is_file():
        raise SettingError(f"--trace {trace} is a bundle", "give a directory of its own for what is recorded")
    try:
        foreign = trace.is_dir() and not segments_of(trace) and any(trace.iterdir())
    except OSError:  # opening the trace says why nothing can be recorded there
        return
    if foreign:
        yield f"{trace} has other files, which stay; the trace is in the files trace-*.odt beside them"


def bundle_directory(path: Path, public_key: Path | None = None, *, quiet: bool = False) -> Path:
    """The directory of a bundle as a user names it: an archive is unpacked once, which is told.

    Args:
        path: a directory, or a file of `omnidraft pack`.
        public_key: of the bundle's signer; None leaves the signature unchecked.
        quiet: show no progress.

    Raises:
        ArchiveError, BundleError: the archive is refused, or cannot be unpacked.
    """
    if not is_archive(path):
        return path
    archive = open_archive(path, public_key)
    with progress_bar("unpack", quiet=quiet) as bar:
        unpacked = unpack_once(archive, bar.step)
    if unpacked.is_new:
        tell([
            f"{path} is unpacked in {unpacked.place} ({size(archive.total)}) and runs from there; "
            f"the latest {KEPT} archives stay there, and any of them can be deleted"
        ])  # fmt: skip
    return unpacked.place


def _opened(options: SessionOptions) -> tuple[Session, list[str]]:
    """The session, and sentences about what is not used."""
    measure = one_of("measure", options.measure, MEASURES)
    bundle = open_bundle(options.path, options.public_key, verify=one_of("verify", options.verify, VERIFIES))
    if options.asks_drafter and bundle.drafter.is_absent:
        raise SettingError(
            f"{bundle.path.name} has no drafter, which --mode and -k ask for",
            "leave both out, and it copies from its text; or export it with --drafter DRAFTER",
        )
    no_drafter = _why_no_drafter(options, bundle) if options.drafter else None
    with ends_at_once():  # loading a damaged graph may take for ever, and nothing is open yet
        loaded = load_bundle(
            bundle,
            threads=options.threads,
            drafter=options.drafter and no_drafter is None,
            target_on=options.target_on,
            drafter_on=options.drafter_on,
            measure=measure,
        )
    adapter, cache = learned_files(options.adapter, options.cache, options.profile, bundle)
    session = Session(loaded, cache=cache, adapter=adapter, bitwise=options.bitwise, trace=options.trace)
    session.template = template_of(bundle)
    notices = [
        no_drafter,
        _timed(loaded, measure),
        session.cache_notice,
        *_unused_of_profile(options, adapter),
    ]
    return session, [notice for notice in notices if notice]


def one_of(setting: str, value: str, allowed: tuple[AllowedValue, ...]) -> AllowedValue:
    """The value of an option, if it is allowed.

    Raises:
        SettingError: it is not.
    """
    for each in allowed:
        if value == each:
            return each
    names = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    raise SettingError(f"{setting} {value!r:.40} is not {names}", "leave it out", setting=setting)


def measure_for(config: GenerationConfig, measure: str) -> str:
    """Whether to time this machine for a generation: only -k auto uses the costs."""
    used = config.num_draft_tokens == "auto" and config.mode != "plain"
    return measure if used or measure != "auto" else "never"


def _timed(loaded: LoadedBundle, measure: str) -> str | None:
    """That this machine was timed, and why; None where it was not, or where that was asked for."""
    if measure != "auto" or loaded.device is None or loaded.device.source != "measured":
        return None
    other = loaded.bundle.measured_on
    costs = "name no machine" if other is None else "are of another machine, place or number of threads"
    return f"timed this machine for -k auto: the costs of the bundle {costs}"


def _why_no_drafter(options: SessionOptions, bundle: Bundle) -> str | None:
    """Why there is too little memory for the drafter; None where there is enough."""
    there = placed(bundle, target_on=options.target_on, drafter_on=options.drafter_on)
    needs = memory_need(there), memory_need(there, drafter=False)
    return why_plain(needs[0].total, needs[1].total, available_bytes())


def learned_files(
    adapter: Path | None, cache: Path | None, profile: Path | None, bundle: Bundle
) -> tuple[Path | None, Path | None]:
    """The adapter and the n-gram cache to begin with; those of the profile where no option names another."""
    if adapter is not None:
        adapter = adapter_file(adapter)
    if profile is not None:
        if not profile.is_dir():
            raise SettingError(
                f"--profile {profile} is not a directory",
                "give the directory that `omnidraft adapt` wrote (--out)",
            )
        learned = learned_of(profile, bundle)
        adapter, cache = adapter or existing(learned.adapter), cache or existing(learned.cache)
    return adapter, cache


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
    if path.suffix == ".onnx_adapter":
        raise SettingError(
            f"{path} is for onnxruntime in other languages", f"give {path.with_suffix('.safetensors')}"
        )
    return adapter_in_use(path) if path.is_dir() else path


def _unused_of_profile(options: SessionOptions, adapter: Path | None) -> Iterator[str]:
    """Sentences that say which part of a profile is not used, and why."""
    place = options.profile
    if place is None:
        return
    if options.adapter is not None:
        yield f"the adapter of --profile {place} is not used, since --adapter {options.adapter} was given"
    elif adapter is None:
        yield f"{place} has no adapter of this target, only n-grams"
    if options.cache is not None:
        yield f"the n-grams of --profile {place} are not used, since --cache {options.cache} was given"


def learned_of(place: Path, bundle: Bundle) -> Profile:
    """What `omnidraft adapt` learned of a bundle's target.

    Raises:
        SettingError: it learned nothing of that target.
    """
    profile = profile_of(place, bundle)
    if not profile.cache.is_file():
        raise SettingError(
            f"{place} has nothing that was learned of the target of {bundle.path.name}",
            "run `omnidraft adapt` with it first",
        )
    return profile


def existing(path: Path) -> Path | None:
    """The path, if it is a file; else None."""
    return path if path.is_file() else None


@contextmanager
def saved_on_exit(session: Session, cache: Path | None) -> Iterator[None]:
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


def _unsound(session: Session) -> Iterator[str]:
    """A sentence where the drafter gave NaN or infinity in the last answer."""
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
