"""`omnidraft generate`; what it needs is imported when it runs, so that `--help` is there at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError

if TYPE_CHECKING:
    from omnidraft.runtime.session.api import Generation


def generate(
    bundle: options.BundlePath,
    prompt: Annotated[
        str,
        typer.Argument(
            metavar="PROMPT", help="The text to continue, in quotes; - reads it from standard input."
        ),
    ],
    system: options.System = None,
    raw: options.Raw = False,
    max_new_tokens: options.MaxNewTokens = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    seed: options.Seed = None,
    num_draft_tokens: options.Lengths = None,
    mode: options.DraftMode = None,
    adapter: options.AdapterPath = None,
    grammar: options.GrammarPath = None,
    cache: options.CachePath = None,
    trace: options.TracePath = None,
    threads: options.Threads = None,
    config: options.ConfigFile = None,
    as_json: options.Json = False,
) -> None:
    """Continue a prompt. The text has the target's own distribution; drafting only saves time."""
    from omnidraft.commands.grammar import read_grammar
    from omnidraft.commands.terminal.generation_options import GenerationOptions, generation_config, notices
    from omnidraft.commands.terminal.generation_summary import as_json as json_of
    from omnidraft.commands.terminal.generation_summary import summary
    from omnidraft.commands.terminal.open_session import open_session, saved_on_exit, session_options, tell
    from omnidraft.commands.terminal.output import err
    from omnidraft.commands.terminal.settings_file import SettingsFile

    if raw and system is not None:
        raise SettingError("--raw omits the template, which --system needs", "omit one of them")
    given = GenerationOptions(max_new_tokens, temperature, top_k, top_p, seed, mode, num_draft_tokens)
    file = SettingsFile(config)
    settings = generation_config(file, given)
    opening = session_options(file, threads=threads, cache=cache, adapter=adapter, trace=trace)
    file.refuse_others()
    idle = list(notices(settings, given, drafter=opening.load.drafter))
    if settings.logprobs and not as_json:
        raise SettingError("logprobs shows nothing without --json", "add --json")
    required = None if grammar is None else read_grammar(grammar)
    session = open_session(bundle, opening, settings)
    session.system = system
    if prompt == "-":
        prompt = sys.stdin.read().removesuffix("\n")  # `echo` ends its text with one that nobody typed
    generation = session.generate(prompt, settings, raw=raw, grammar=required)
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
    from omnidraft.commands.terminal.output import AnswerWriter

    writer = AnswerWriter(sys.stdout)
    try:
        for piece in generation:
            writer.write(piece.text)
    except KeyboardInterrupt:
        writer.end_line()
        raise
    writer.end_line()
