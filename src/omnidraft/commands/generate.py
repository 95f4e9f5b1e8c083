"""`omnidraft generate`: write on from a prompt, and say what it took."""

import sys
from typing import Annotated, Any

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.open_session import SessionOptions, kept, opened, tell
from omnidraft.errors import counted
from omnidraft.runtime.session.api import Generation


def generate(
    context: typer.Context,
    bundle: options.BundlePath,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="What to go on from, in quotes; - reads it from standard input."
        ),
    ],
    max_new_tokens: options.MaxNewTokens = 128,
    temperature: options.Temperature = 0.0,
    seed: Annotated[int | None, typer.Option(help="Repeats a sampled text (default: drawn anew).")] = None,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    head_threshold: options.HeadThreshold = "1",
    stop: options.Stop = None,
    plain: Annotated[bool, typer.Option("--plain", help="The target alone; nothing is drafted.")] = False,
    no_drafter: options.NoDrafter = False,
    raw: Annotated[bool, typer.Option("--raw", help="Leave out the bundle's prompt template.")] = False,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Penalty = 1.0,
    verification: options.Verification = "auto",
    logprobs: options.Logprobs = False,
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    cache: options.CachePath = None,
    public_key: options.PublicKey = None,
    adapter: options.AdapterPath = None,
    profile: options.ProfilePath = None,
    bitwise: options.Bitwise = False,
    trace: options.TracePath = None,
    as_json: options.Json = False,
) -> None:
    """Write on from a prompt. Its distribution is the target's own; drafting only saves time."""
    from omnidraft.commands.terminal import output

    idle = options.notices(context)
    wanted = SessionOptions(
        bundle, threads, not no_drafter, cache, target_on, drafter_on, public_key, adapter,
        bitwise, trace, profile,
    )  # fmt: skip
    session = opened(wanted)
    found = session.generate(
        sys.stdin.read() if prompt == "-" else prompt,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        mode="plain" if plain else mode,  # type: ignore[arg-type] # any text; a wrong one is refused there
        num_draft_tokens=options.lengths(num_draft_tokens),
        head_threshold=options.threshold(head_threshold),
        stop=tuple(stop or ()),
        raw=raw,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        verification=verification,  # type: ignore[arg-type] # likewise
        logprobs=logprobs,
    )
    tell(idle)
    with kept(session, cache):
        for piece in found:
            if not as_json:
                sys.stdout.write(piece.text)
                sys.stdout.flush()
        if as_json:
            options.print_json(_as_json(found, len(session.cache)))
    if not as_json:
        told = summary(found, len(session.cache), drafter=session.weights.drafter is not None)
        output.err.print(f"\n[dim]{told}[/dim]", soft_wrap=True)


def summary(found: Generation, cache_size: int, *, drafter: bool = True) -> str:
    """One line about an answer, which a drafter was loaded for or not."""
    s = found.statistics
    return (
        f"{counted(s.emitted, 'token')} in {s.total_seconds:.2f} s "
        f"({s.emitted / max(s.total_seconds, 1e-9):.0f} a second), "
        f"{s.tokens_per_target_pass:.2f} per target pass, "
        f"{drafting(found) if drafter else 'nothing drafted'}, "
        f"{counted(cache_size, 'n-gram')} learned; ended by {found.stop_reason}"
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


def _as_json(found: Generation, cache_size: int) -> dict[str, Any]:
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
