"""`omnidraft generate`: continue a prompt, and report what the rounds did.

What the command needs is imported when it runs, so that `--help` is there at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path

    from omnidraft.runtime.session.api import Generation, GenerationConfig, Session


def generate(
    context: typer.Context,
    bundle: options.BundlePath,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="PROMPT", help="The text to continue, in quotes; - reads it from standard input."
        ),
    ] = None,
    system: options.System = None,
    messages: options.Messages = None,
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
    verify: options.VerifyFiles = "auto",
    measure: options.MeasureCosts = "auto",
    as_json: options.Json = False,
) -> None:
    """Continue a prompt. The text has the target's own distribution; drafting only saves time."""
    from omnidraft.commands.terminal.generation_options import generation_config, notices
    from omnidraft.commands.terminal.generation_summary import as_json as json_of
    from omnidraft.commands.terminal.generation_summary import summary
    from omnidraft.commands.terminal.open_session import (
        open_session,
        saved_on_exit,
        session_options,
        tell,
    )
    from omnidraft.commands.terminal.output import err

    if (prompt is None) == (messages is None):
        raise SettingError("give a PROMPT or --messages FILE", "one of them, and not both")
    if raw and (system is not None or messages is not None):
        raise SettingError(
            "--raw leaves out the template, which --system and --messages need", "leave one of them out"
        )
    idle = notices(context)
    config = generation_config(context)
    session = open_session(session_options(context, config))
    generation = _start(session, config, prompt, messages, system, raw=raw)
    tell(idle)
    with saved_on_exit(session, cache):
        if as_json:
            generation.finish()
            device = session.loaded.device
            costs = {"costs_from": device.source if device else "manifest"}
            options.print_json({**json_of(generation, len(session.cache), session.stats), **costs})
        else:
            _write(generation)
    if not as_json:
        drafter, peak = session.loaded.drafter is not None, session.stats.peak_memory
        lines = summary(generation, len(session.cache), drafter=drafter, peak_memory=peak)
        err.print(f"[dim]{lines}[/dim]", soft_wrap=True)


def _write(generation: Generation) -> None:
    """Write the text as it comes. Its line is ended, also of a file or a pipe, and also by Ctrl-C."""
    from omnidraft.commands.terminal.output import AnswerWriter

    writer = AnswerWriter(sys.stdout)
    try:
        for piece in generation:
            writer.write(piece.text)
    except KeyboardInterrupt:
        writer.end_line()
        raise
    writer.end_line()


def _start(
    session: Session,
    config: GenerationConfig,
    prompt: str | None,
    messages: Path | None,
    system: str | None,
    *,
    raw: bool,
) -> Generation:
    """Begin the generation after a prompt or a conversation."""
    if messages is not None:
        from omnidraft.commands.terminal.read_messages import read_message_file, with_system

        return session.chat(with_system(read_message_file(messages), system), config)
    assert prompt is not None
    session.system = system
    if prompt == "-":
        prompt = sys.stdin.read().removesuffix("\n")  # `echo` ends its text with one that nobody typed
    return session.generate(prompt, config, raw=raw)
