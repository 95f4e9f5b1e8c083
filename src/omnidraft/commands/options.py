"""The command line's options: their names, what their values mean, and which mean nothing."""

import json
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.errors import SettingError

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of a target pass (default: by its size).")]
Lengths = Annotated[
    str, typer.Option("--num-draft-tokens", "-k", help="Draft tokens in each round; auto: as many as pay.")
]
Temperature = Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", help="Output tokens at most.")]
Stop = Annotated[
    list[str] | None, typer.Option(help="Text that ends the output and is no part of it; may be repeated.")
]
NoDrafter = Annotated[
    bool, typer.Option("--no-drafter", help="Do not load the drafter: slower, and less memory.")
]
Mode = Annotated[
    str,
    typer.Option(
        help="trie, match, direct, lookup (copies from the context): exact; paper: only at temperature 0."
    ),
]
TopK = Annotated[int, typer.Option(help="Keep so many of the most probable tokens; 0 keeps all.")]
TopP = Annotated[float, typer.Option(help="Keep the most probable tokens of this mass.")]
MinP = Annotated[float, typer.Option(help="Keep this share of the largest probability and more.")]
Penalty = Annotated[float, typer.Option(help="Above 1: repeats become less likely.")]
Verification = Annotated[
    str, typer.Option(help="Of mode trie above temperature 0: token, block; auto: as pays.")
]
Bitwise = Annotated[
    bool,
    typer.Option("--bitwise", help="Plain and speculative greedy text are the same in int8 and int4 too."),
]
CachePath = Annotated[
    Path | None, typer.Option(help="Learned n-grams: read if it is there, written back at the end.")
]


def need_export_packages() -> None:
    """Say what is missing instead of failing on an import."""
    missing = [
        name for name in ("torch", "transformers", "optimum", "onnx", "onnxscript") if not find_spec(name)
    ]
    if missing:
        raise SettingError(
            f"exporting needs {', '.join(missing)}, which this Python "
            f"({platform.python_version()}) does not have; "
            "run `pip install 'omnidraft[all]'` with Python 3.11, 3.12 or 3.13"
        )


def lengths(text: str) -> Any:
    """The number of draft tokens, or "auto"."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingError(f'--num-draft-tokens "{text}" is neither a number nor auto; 4 is usual') from None


def lines(file: Path) -> list[str]:
    """The lines of a file of prompts."""
    try:
        found = [line.strip() for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{file} cannot be read as UTF-8 text ({error}); give a prompt on each line"
        ) from None
    if not found:
        raise SettingError(f"{file} holds no prompts; give one on each line")
    return found


def short(name: str) -> str:
    """A tokenizer's name for a table's title."""
    path = Path(name)
    return path.parent.name if path.name == "tokenizer.json" else path.name


def print_json(value: Any) -> None:
    """What `--json` promises: one object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
