"""`omnidraft generate`: continue a prompt, and report what the rounds did."""

import sys
from typing import Annotated, Any

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.generation_options import generation_config, notices
from omnidraft.commands.terminal.open_session import (
    SessionOptions,
    idle_head,
    open_session,
    saved_on_exit,
    tell,
)
from omnidraft.errors import counted
from omnidraft.runtime.session.api import Generation


def generate(
    context: typer.Context,
    bundle: options.BundlePath,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="The text to continue, in quotes; - reads it from standard input."
        ),
    ],
    max_new_tokens: options.MaxNewTokens = 128,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.Penalty = 1.0,
    stop: options.Stop = None,
    raw: options.Raw = False,
    logprobs: options.Logprobs = False,
    mode: options.Mode = "trie",
    num_draft_tokens: options.Lengths = "auto",
    head_threshold: options.HeadThreshold = "1",
    verification: options.Verification = "auto",
    plain: options.Plain = False,
    no_drafter: options.NoDrafter = False,
    bitwise: options.Bitwise = False,
    cache: options.CachePath = None,
    adapter: options.AdapterPath = None,
    profile: options.ProfilePath = None,
    trace: options.TracePath = None,
    threads: options.Threads = None,
    target_on: options.TargetOn = "cpu",
    drafter_on: options.DrafterOn = "cpu",
    public_key: options.PublicKey = None,
    as_json: options.Json = False,
) -> None:
    """Continue a prompt. The text has the target's own distribution; drafting only saves time."""
    idle = notices(context)
    config = generation_config(context)
    session = open_session(
        SessionOptions(
            bundle,
            threads=threads,
            drafter=not no_drafter,
            cache=cache,
            target_on=target_on,
            drafter_on=drafter_on,
            public_key=public_key,
            adapter=adapter,
            bitwise=bitwise,
            trace=trace,
            profile=profile,
        )
    )
    generation = session.generate(sys.stdin.read() if prompt == "-" else prompt, config, raw=raw)
    tell([*idle, *idle_head(session, config)])
    with saved_on_exit(session, cache):
        for piece in generation:
            if not as_json:
                sys.stdout.write(piece.text)
                sys.stdout.flush()
        if as_json:
            options.print_json(_as_json(generation, len(session.cache)))
    if not as_json:
        if not generation.text.endswith("\n"):  # a line of a file or a pipe ends too
            sys.stdout.write("\n")
            sys.stdout.flush()
        line = summary(generation, len(session.cache), drafter=session.loaded.drafter is not None)
        output.err.print(f"[dim]{line}[/dim]", soft_wrap=True)


def summary(generation: Generation, cache_size: int, *, drafter: bool = True) -> str:
    """One line about a generation.

    Args:
        generation: finished.
        cache_size: number of learned n-grams.
        drafter: whether a drafter was loaded.
    """
    s = generation.statistics
    return (
        f"{counted(s.emitted, 'token')} in {s.total_seconds:.2f} s "
        f"({s.emitted / max(s.total_seconds, 1e-9):.0f} a second), "
        f"{s.tokens_per_target_pass:.2f} per target pass, "
        f"{drafting(generation) if drafter else 'nothing drafted'}, "
        f"{counted(cache_size, 'n-gram')} learned; ended by {generation.stop_reason}"
        + ("" if _seed(generation) is None else f", seed {generation.seed}")
    )


def drafting(generation: Generation) -> str:
    """How many draft tokens and copies were accepted; where nothing was proposed, why, and a remedy."""
    s = generation.statistics
    parts = [f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted"]
    if s.copied:
        copies = f"{s.accepted_copies} of {s.copied} copied tokens accepted"
        parts = [*parts, copies] if s.drafted else [copies]
    if s.drafted or s.copied or generation.config.mode == "plain":
        return ", ".join(parts)
    if generation.config.num_draft_tokens == "auto" and s.emitted > 1:
        return "nothing drafted, since it would not pay here (-k 4 drafts nevertheless)"
    return "nothing drafted"


def _seed(generation: Generation) -> int | None:
    """The seed; None where nothing was sampled."""
    return generation.seed if generation.config.temperature > 0.0 else None


def _as_json(generation: Generation, cache_size: int) -> dict[str, Any]:
    """A generation and its counts."""
    s = generation.statistics
    return {
        "text": generation.text,
        "token_ids": generation.token_ids,
        **({"logprobs": generation.logprobs} if generation.logprobs else {}),
        "stop_reason": generation.stop_reason,
        "stop_string": generation.stop_string,
        "seed": _seed(generation),
        "prompt_tokens": len(generation.prompt_ids),
        "rounds": s.rounds,
        "drafted": s.drafted,
        "accepted": s.accepted,
        "copied": s.copied,
        "accepted_copies": s.accepted_copies,
        "emitted": s.emitted,
        "tokens_per_target_pass": s.tokens_per_target_pass,
        "acceptance_of_drafted": s.acceptance_of_drafted,
        "acceptance_of_evaluated": s.acceptance_of_evaluated,
        "cache_size": cache_size,
        "total_seconds": s.total_seconds,
        "tokens_per_second": s.emitted / max(s.total_seconds, 1e-9),
        "seconds": s.seconds,
    }
