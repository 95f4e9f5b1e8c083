"""`omnidraft config`: the settings of a generation and of loading, as the TOML file that `--config` takes."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.generation_options import config_in_file
from omnidraft.commands.terminal.open_session import SessionOptions, session_options
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.runtime.models.threads import threads_for
from omnidraft.runtime.session.generation_config import GenerationConfig

Setting = bool | int | float | str | Sequence[str] | None
Line = tuple[str, Setting, str]


def config_command(
    bundle: Annotated[
        Path | None,
        typer.Argument(metavar="BUNDLE", help="Also show what is chosen for this bundle.", readable=False),
    ] = None,
    config: options.ConfigFile = None,
) -> None:
    """Print the settings of `generate`, `chat` and `bench` as TOML, with comments, for --config.

    The values are those of the file of --config, else the usual ones.
    """
    file = SettingsFile(config)
    generation, opening = config_in_file(file, GenerationConfig()), session_options(file)
    file.refuse_others()
    threads, drafter = opening.load.threads, opening.load.drafter
    if bundle is not None:
        opened = opening.load.open(bundle)
        threads = threads_for(opened.target.parameters) if threads is None else threads
        drafter = drafter and not opened.drafter.is_absent
    for name, value, comment in (*generation_lines(generation), *load_lines(opening, threads, drafter)):
        print(f"# {comment}\n{f'# {name} = ...' if value is None else f'{name} = {_toml(value)}'}")


def generation_lines(config: GenerationConfig) -> Iterator[Line]:
    """Each setting of a generation: its name, its value, and what it does."""
    modes = options.one_of(options.MODES)
    yield "max_new_tokens", config.max_new_tokens, "largest number of output tokens"
    yield "temperature", config.temperature, "0: always the most probable token; above 0: tokens are sampled"
    yield "top_k", config.top_k, "keep this many of the most probable tokens; 0 keeps all"
    yield "top_p", config.top_p, "keep the most probable tokens whose probabilities add up to this"
    yield "min_p", config.min_p, "keep tokens with at least this share of the largest probability"
    yield "repetition_penalty", config.repetition_penalty, "above 1: tokens that were used become less likely"
    yield "seed", config.seed, "repeats a sampled text; without it the system draws one"
    yield "stop", config.stop, "texts that end the output and are left out of it"
    yield "ignore_eos", config.ignore_eos, "go on after the end of a text, for benchmarks"
    yield "logprobs", config.logprobs, "with --json: each token's natural log-probability"
    yield "mode", config.mode, f"how to draft: {modes}"
    yield "num_draft_tokens", config.num_draft_tokens, 'draft tokens of a round, 0 to 48, or "auto"'
    yield "verification", config.verification, 'of mode trie above temperature 0: "token", "block" or "auto"'


def load_lines(opening: SessionOptions, threads: int | None, drafter: bool) -> Iterator[Line]:
    """Each setting of loading: its name, its value, and what it does.

    Args:
        opening: as asked for.
        threads: of a target pass, also where they are chosen by the bundle.
        drafter: whether the drafter is loaded, as far as is known.
    """
    load = opening.load
    places = "cpu; npu (the static graphs, on the CPU); qnn, qnn-fp16, coreml or nnapi, with options"
    yield "threads", threads, "threads of a target pass; without it by the target's size"
    yield "drafter", drafter, "false: do not load the drafter: less memory, and slower"
    yield (
        "bitwise",
        opening.bitwise,
        "plain and speculative greedy text are the same in int8 and int4 too, on x86-64; slower",
    )
    yield "target_on", load.target_on, f"where the target runs: {places}"
    yield "drafter_on", load.drafter_on, "where the drafter runs: the same places"
    key = None if load.public_key is None else str(load.public_key)
    yield (
        "public_key",
        key,
        f"PEM file; a bundle without a signature by it is refused (also {options.PUBLIC_KEY})",
    )
    yield "verify", load.verify, 'how files are checked: "full", "stamp", or "auto": full with a public key'
    yield "measure", load.measure, 'time this machine for -k auto: "always", "never", or "auto": once'


def _toml(value: Setting) -> str:
    """A value as TOML; strings of JSON are strings of TOML, except for one character."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
