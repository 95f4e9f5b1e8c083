"""What generations did: the lines of `generate`, those of /stats in a chat, and the fields of `--json`."""

from typing import Any

from omnidraft.commands.terminal.output import size
from omnidraft.errors import counted
from omnidraft.runtime.session.api import Generation, Statistics, TextSession
from omnidraft.runtime.session.statistics import SessionStatistics


def summary(
    generation: Generation, cache_size: int, *, drafter: bool = True, peak_memory: int | None = None
) -> str:
    """Lines about a generation.

    Args:
        generation: finished.
        cache_size: number of n-grams in the cache, learned now or before.
        drafter: whether a drafter was loaded.
        peak_memory: bytes; None where the system does not count them.
    """
    s = generation.statistics
    seed = "" if generation.config.temperature == 0.0 else f", seed {generation.seed}"
    return (
        f"{counted(s.emitted, 'token')} in {s.total_seconds:.2f} s "
        f"({s.tokens_per_second:.0f} a second), "
        f"{s.tokens_per_target_pass:.2f} per target pass, "
        f"{_drafting(generation, drafter)}, "
        f"{counted(cache_size, 'n-gram')} known; ended by {generation.stop_reason}{seed}\n"
        f"{reading(s, len(generation.prompt_ids))}{_memory(peak_memory)}"
    )


def reading(s: Statistics, prompt_tokens: int | None = None) -> str:
    """When the first token came, and how fast the prompt was read.

    Args:
        s: the counts.
        prompt_tokens: of the prompt; None to leave them out.
    """
    speed = f" at {s.read_per_second:.0f} a second" if s.read else ""
    if prompt_tokens is None:
        read = f"{counted(s.read, 'token')} of prompts read{speed}"
    else:
        read = f"prompt of {counted(prompt_tokens, 'token')}, {s.read} of them read{speed}"
    return f"{read}, first token after {s.first_token_seconds:.3f} s"


def session_summary(session: TextSession, loaded: int = 0) -> str:
    """Lines about the conversation of a session."""
    stats, answer = session.stats, session.answer
    s = stats.totals
    used = 0 if answer is None else len(answer.prompt_ids) + len(answer.token_ids)
    parts = [f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted" if s.drafted else ""]
    parts.append(f"{s.accepted_copies} of {s.copied} copied tokens accepted" if s.copied else "")
    drafted = ", ".join(part for part in parts if part) or "nothing drafted"
    since = f"{counted(loaded, 'turn')} loaded, since then " if loaded else ""
    counts = f"{since}{counted(stats.answers, 'answer')}, {counted(s.emitted, 'token')}"
    lines = [counts]
    if s.emitted:
        lines[0] += f", {s.tokens_per_second:.0f} a second, {s.tokens_per_target_pass:.2f} per target pass"
        lines.append(reading(s))
    lines.append(f"{drafted}, {counted(len(session.cache), 'n-gram')} known")
    if session.loaded.device is not None:
        lines.append(f"costs of -k auto: {session.loaded.device.origin}")
    length = session.bundle.target.kv.max_length
    lines.append(f"{used} of {length} positions used{_memory(stats.peak_memory)}")
    return "\n".join(lines)


def as_json(generation: Generation, cache_size: int, stats: SessionStatistics) -> dict[str, Any]:
    """A generation and its counts."""
    s, thought = generation.statistics, generation.thought
    sampled = generation.config.temperature > 0.0
    return {
        "text": generation.text,
        **({"thought": thought, "answer": generation.answer} if thought else {}),
        "token_ids": generation.token_ids,
        **({"logprobs": generation.logprobs} if generation.logprobs else {}),
        "stop_reason": generation.stop_reason,
        "stop_string": generation.stop_string,
        "seed": generation.seed if sampled else None,
        "prompt_tokens": len(generation.prompt_ids),
        "rounds": s.rounds,
        "drafted": s.drafted,
        "accepted": s.accepted,
        "copied": s.copied,
        "accepted_copies": s.accepted_copies,
        "emitted": s.emitted,
        "unsound": s.unsound,
        "tokens_per_target_pass": s.tokens_per_target_pass,
        "acceptance_of_drafted": s.acceptance_of_drafted,
        "acceptance_of_evaluated": s.acceptance_of_evaluated,
        "cache_size": cache_size,
        "first_token_seconds": s.first_token_seconds,
        "prompt_tokens_read": s.read,
        "prompt_seconds": s.read_seconds,
        "prompt_tokens_per_second": s.read_per_second,
        "total_seconds": s.total_seconds,
        "tokens_per_second": s.tokens_per_second,
        "seconds": s.seconds,
        "peak_memory_bytes": stats.peak_memory,
    }


def _drafting(generation: Generation, drafter: bool) -> str:
    """How many draft tokens and copies were accepted; where nothing was proposed, why, and a remedy."""
    s = generation.statistics
    parts = [f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted"]
    if s.copied:
        copies = f"{s.accepted_copies} of {s.copied} copied tokens accepted"
        parts = [*parts, copies] if s.drafted else [copies]
    if s.drafted or s.copied:
        return ", ".join(parts)
    if (
        drafter
        and generation.config.mode != "plain"
        and generation.config.num_draft_tokens == "auto"
        and s.emitted > 1
    ):
        return "nothing drafted, since it would not pay here (-k 4 drafts nevertheless)"
    return "nothing drafted"


def _memory(peak: int | None) -> str:
    return "" if peak is None else f", {size(peak)} of memory at the peak"
