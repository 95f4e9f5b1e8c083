"""How `generate` and `chat` open a bundle, as the memory allows, and keep what was learned at the end."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.learning.online.profiles import Profile, profile_of
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.memory import available_bytes, memory_need, why_plain
from omnidraft.runtime.bundle.placement import CPU_GRAPH, placed
from omnidraft.runtime.session.api import Session, load_bundle
from omnidraft.runtime.session.chat_template import template_of
from omnidraft.runtime.vocab.cache_store import check_place
from omnidraft.sync.installed import adapter_in_use


@dataclass(frozen=True)
class SessionOptions:
    """A bundle, and how the command line was asked to open it (see `load_bundle` and `Session`)."""

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


def open_session(wanted: SessionOptions) -> tuple[Session, list[str]]:
    """A session, and what its user should know.

    That is why it has no drafter where it was wanted and the memory is too short for it, and why it has
    learned nothing where a cache was given.
    """
    if wanted.cache is not None:
        check_place(wanted.cache)
    bundle, reason = open_bundle(wanted.path, wanted.public_key), None
    if wanted.drafter:
        there = placed(bundle, target_on=wanted.target_on, drafter_on=wanted.drafter_on)
        needs = memory_need(there), memory_need(there, drafter=False)
        reason = why_plain(needs[0].total, needs[1].total, available_bytes())
    weights = load_bundle(
        bundle,
        threads=wanted.threads,
        drafter=wanted.drafter and reason is None,
        target_on=wanted.target_on,
        drafter_on=wanted.drafter_on,
    )
    adapter, cache = wanted.adapter, wanted.cache
    if adapter is not None and adapter.is_dir():  # what `omnidraft sync pull` keeps there
        adapter = adapter_in_use(adapter)
    if wanted.profile is not None:
        learned = learned_of(wanted.profile, bundle)
        adapter, cache = adapter or existing(learned.adapter), cache or existing(learned.cache)
    session = Session(weights, cache=cache, adapter=adapter, bitwise=wanted.bitwise, trace=wanted.trace)
    session.template = template_of(bundle)
    told = [reason, session.cache_notice, *_of_profile(wanted, adapter)]
    return session, [notice for notice in told if notice]


def _of_profile(wanted: SessionOptions, adapter: Path | None) -> Iterator[str]:
    """What of a profile is not used, and why."""
    place = wanted.profile
    if place is None:
        return
    if wanted.adapter is not None:
        yield f"the adapter of --profile {place} is not used, since --adapter {wanted.adapter} was given"
    elif adapter is None:
        yield f"{place} has no adapter of this target yet, only n-grams"
    if wanted.cache is not None:
        yield f"the n-grams of --profile {place} are not used, since --cache {wanted.cache} was given"


def learned_of(place: Path, bundle: Bundle) -> Profile:
    """What `omnidraft adapt` left of a bundle's target.

    Raises:
        SettingError: nothing.
    """
    found = profile_of(place, bundle)
    if not found.cache.is_file():
        raise SettingError(
            f"{place} has nothing that was learned of the target of {bundle.path.name}",
            "run `omnidraft adapt` with it first",
        )
    return found


def existing(path: Path) -> Path | None:
    """A file that is there."""
    return path if path.is_file() else None


def opened(wanted: SessionOptions) -> Session:
    """A session, after its user was told the notices of `open_session`."""
    session, notices = open_session(wanted)
    tell(notices)
    return session


@contextmanager
def kept(session: Session, cache: Path | None) -> Iterator[None]:
    """At the end of what is within, be it an interrupt: write the cache where it is kept, close the trace."""
    try:
        yield
    finally:
        refused = None if cache is None else session.save_cache(cache)
        if refused is not None:
            tell([f"{cache} was no whole cache of this pair of models and is kept as {refused}"])
        if session.trace is not None:
            session.trace.close()
            tell([session.trace.problem] if session.trace.problem else [])


def tell(notices: Iterable[str]) -> None:
    """Sentences for the user, on standard error."""
    for notice in notices:
        sys.stderr.write(f"omnidraft: {notice}\n")
