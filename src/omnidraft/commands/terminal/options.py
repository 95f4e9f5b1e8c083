"""Options that several commands have, with their help texts; and the output of `--json`.

A default of None means that the option was not given: the file of `--config` or the usual value holds.
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

# Names that options take. Their modules need numpy, and `--help` is to be there at once; a test compares.
MODES = ("trie", "match", "direct", "paper", "lookup", "plain")
PUBLIC_KEY = "OMNIDRAFT_PUBLIC_KEY"  # environment variable; the file of --config may name a key, too


def one_of(names: Iterable[str]) -> str:
    """Names for a help text, as `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


# `readable=False`: a path that cannot be read is refused where it is read, in one sentence.
BundlePath = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.", readable=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with further settings; options override it. `omnidraft config` prints one with all.",
        readable=False,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option("--max-new-tokens", "-n", help="Largest number of output tokens (default: 128; chat: 512)."),
]
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        "-t",
        help="0: always the most probable token. Above 0: tokens are sampled (default: 0).",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Repeats a sampled text with the same settings and learned n-grams on the same machine "
        "(default: a random seed)."
    ),
]
TopK = Annotated[
    int | None, typer.Option(help="Keep this many of the most probable tokens (default: 0, all).")
]
TopP = Annotated[
    float | None,
    typer.Option(help="Keep the most probable tokens whose probabilities add up to this (default: 1)."),
]
Raw = Annotated[bool, typer.Option("--raw", help="Omit the bundle's prompt template.")]
System = Annotated[
    str | None,
    typer.Option("--system", metavar="TEXT", help="System prompt: instructions before the first message."),
]
DraftMode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help=f"How to draft: {one_of(MODES)} (default: trie). plain drafts nothing; lookup copies from the "
        "context. All modes keep the target's distribution, except paper above temperature 0.",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        "--num-draft-tokens",
        "-k",
        help="Draft tokens of a round, 0 to 48, without copies; auto: the number that is fastest here, or "
        "copies of the text so far where they are faster (default: auto).",
    ),
]
CachePath = Annotated[
    Path | None,
    typer.Option(
        help="File of learned n-grams: read at the start if it exists, written at the end.", readable=False
    ),
]
AdapterPath = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        help="LoRA adapter of the drafter or of the target; or a directory of `sync pull`; or one of `learn "
        "--prompts`, whose n-grams are used, too. None of them is changed.",
        readable=False,
    ),
]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Record the text and the target's probabilities into this directory, for training. They stay on "
        "this machine.",
        readable=False,
    ),
]
GrammarPath = Annotated[
    Path | None,
    typer.Option(
        "--grammar",
        help="What the text must belong to: a JSON Schema (.json), or a file of `omnidraft grammar`.",
        readable=False,
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="Threads of a target pass (default: by the target's size).")
]


def signer() -> Path | None:
    """The public key that OMNIDRAFT_PUBLIC_KEY names; a bundle without a signature by it is refused."""
    key = os.environ.get(PUBLIC_KEY)
    return Path(key) if key else None


def print_json(value: Any) -> None:
    """Print one JSON object on standard output, for `--json`."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
