"""`omnidraft generate`: open a bundle as the memory allows, and show an answer."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnidraft.chat_template import template_of
from omnidraft.errors import SettingError
from omnidraft.runtime.bundle import Bundle, open_bundle
from omnidraft.runtime.cache_store import check_place
from omnidraft.runtime.generate import Generation, Session, load_weights
from omnidraft.runtime.installed import adapter_in_use
from omnidraft.runtime.learner.profiles import Profile, profile_of
from omnidraft.runtime.memory import available_bytes, memory_need, why_plain
from omnidraft.runtime.placement import CPU_GRAPH, placed


@dataclass(frozen=True)
class Opening:
    """A bundle, and how the command line was asked to open it (see `load_weights` and `Session`)."""

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


def open_session(wanted: Opening) -> tuple[Session, list[str]]:
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
    weights = load_weights(
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
    bare = wanted.profile is not None and adapter is None
    no_adapter = f"{wanted.profile} has no adapter of this target yet, only n-grams" if bare else None
    return session, [notice for notice in (reason, session.cache_notice, no_adapter) if notice]


def learned_of(place: Path, bundle: Bundle) -> Profile:
    """What `omnidraft adapt` left of a bundle's target.

    Raises:
        SettingError: nothing.
    """
    found = profile_of(place, bundle)
    if not found.cache.is_file():
        raise SettingError(
            f"{place} has nothing that was learned of the target of {bundle.path.name}; "
            "run `omnidraft adapt` with it first"
        )
    return found


def existing(path: Path) -> Path | None:
    """A file that is there."""
    return path if path.is_file() else None


def summary(found: Generation, cache_size: int, *, drafter: bool = True) -> str:
    """One line about an answer, which a drafter was loaded for or not."""
    s = found.statistics
    return (
        f"{s.emitted} tokens in {s.total_seconds:.2f} s "
        f"({s.emitted / max(s.total_seconds, 1e-9):.0f} a second), "
        f"{s.tokens_per_target_pass:.2f} per target pass, "
        f"{drafting(found) if drafter else 'nothing drafted'}, "
        f"{cache_size} n-grams learned; ended by {found.stop_reason}"
        + ("" if _seed(found) is None else f", seed {found.seed}")
    )


def drafting(found: Generation) -> str:
    """What became of the draft, in words; nothing drafted is said as such, with what to do."""
    s = found.statistics
    if s.drafted or found.request.mode == "plain":
        return f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted"
    if found.request.num_draft_tokens == "auto" and s.emitted > 1:
        return "nothing drafted, since it would not pay here (-k 4 drafts nevertheless)"
    return "nothing drafted"


def _seed(found: Generation) -> int | None:
    """None where nothing was drawn."""
    return found.seed if found.request.temperature > 0.0 else None


def as_json(found: Generation, cache_size: int) -> dict[str, Any]:
    """An answer and its counts."""
    s = found.statistics
    return {
        "text": found.text,
        "token_ids": found.token_ids,
        **({"logprobs": found.logprobs} if found.logprobs else {}),
        "stop_reason": found.stop_reason,
        "stop_string": found.stop_string,
        "seed": _seed(found),
        "prompt_tokens": len(found.prompt_ids),
        "rounds": s.rounds,
        "drafted": s.drafted,
        "accepted": s.accepted,
        "emitted": s.emitted,
        "tokens_per_target_pass": s.tokens_per_target_pass,
        "acceptance_of_drafted": s.acceptance_of_drafted,
        "acceptance_of_tested": s.acceptance_of_tested,
        "cache_size": cache_size,
        "seconds": s.seconds,
    }
