"""The command line's options: their names, what their values mean, and which mean nothing."""

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.errors import SettingError
from omnidraft.export.adopt.find_graph import find_graph
from omnidraft.learning.step.schedule import SCHEDULES
from omnidraft.runtime.decoding.speculate import MODES, VERIFICATIONS
from omnidraft.runtime.session.generation_config import GenerationConfig


def one_of(names: Iterable[str]) -> str:
    """Names for a help text, as `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


PUBLIC_KEY = "OMNIDRAFT_PUBLIC_KEY"
PublicKey = Annotated[
    Path | None,
    typer.Option(
        "--public-key",
        envvar=PUBLIC_KEY,
        help="The signer's public key in PEM form: a bundle without its signature is refused.",
    ),
]
# `readable=False`: what cannot be read is refused where it is read, in a sentence.
BundlePath = Annotated[
    Path,
    typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.", readable=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of a target pass (default: by its size).")]
Lengths = Annotated[
    str, typer.Option("--num-draft-tokens", "-k", help="Draft tokens in each round; auto: as many as pay.")
]
HeadThreshold = Annotated[
    str,
    typer.Option(
        help="With a trained head (--adapter): stop a draft that is refused with a larger chance than this, "
        "0 to 1 (1: never); auto: where going on does not pay, if -k is auto too."
    ),
]
Temperature = Annotated[
    float,
    typer.Option("--temperature", "-t", help="0 always takes the likeliest token; above, tokens are drawn."),
]
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
        help=f"How to draft: {one_of(MODES)}. plain drafts nothing, lookup copies from the context; all are "
        "exact, but paper above temperature 0."
    ),
]
TopK = Annotated[int, typer.Option(help="Keep so many of the most probable tokens; 0 keeps all.")]
TopP = Annotated[float, typer.Option(help="Keep the most probable tokens of this mass.")]
MinP = Annotated[float, typer.Option(help="Keep this share of the largest probability and more.")]
Penalty = Annotated[float, typer.Option(help="Above 1: repeats become less likely.")]
Verification = Annotated[
    str,
    typer.Option(
        help=f"How drafts of mode trie are judged above temperature 0: {one_of(VERIFICATIONS)}; all exact; "
        "auto: what pays."
    ),
]
TargetOn = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Where the target runs: cpu; npu (the static graphs, on the CPU); qnn, qnn-fp16, coreml, nnapi, "
        "maybe with options, as qnn:soc_model=57.",
    ),
]
DrafterOn = Annotated[str, typer.Option(metavar="PLACE", help="Where the drafter runs, likewise.")]
Bitwise = Annotated[
    bool,
    typer.Option("--bitwise", help="Plain and speculative greedy text are the same in int8 and int4 too."),
]
CachePath = Annotated[
    Path | None,
    typer.Option(help="Learned n-grams: read if it is there, written back at the end.", readable=False),
]
Logprobs = Annotated[
    bool,
    typer.Option(
        "--logprobs",
        help="With --json: each token's natural log-probability under the distribution that it was drawn from; "
        "at temperature 0, under the target's own at temperature 1.",
    ),
]
Schedule = Annotated[
    str,
    typer.Option(
        help=f"Of the learning rate: {one_of(SCHEDULES)}; decay rises at first and falls to 0 at the end."
    ),
]
MaxLength = Annotated[
    int | None, typer.Option(help="Draft tokens of a response with its prompt (default: the context).")
]
TargetAdapter = Annotated[
    Path | None,
    typer.Option(
        help="The target's adapter while the traces were recorded (default: it had none); its records are "
        "learned from.",
        readable=False,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="A file that the same command goes on from where it is there; it is kept up to date.",
        readable=False,
    ),
]
CheckpointEvery = Annotated[int, typer.Option(min=1, help="Write --checkpoint after so many steps.")]
_SHORT = {"max_new_tokens": "-n", "temperature": "-t", "num_draft_tokens": "-k"}
_SAMPLED = ("seed", "top_k", "top_p", "min_p", "verification")  # without a meaning where nothing is drawn
_WITH_DRAFTER = ("trie", "match", "direct", "paper")


def notices(context: typer.Context) -> list[str]:
    """What the user should know of options that do nothing, or less than they promise; a sentence each.

    Raises:
        SettingError: options that contradict one another.
    """
    values = context.params
    given = {n for n in values if getattr(context.get_parameter_source(n), "name", "") == "COMMANDLINE"}
    mode, greedy = values["mode"], values["temperature"] == 0.0
    if values.get("logprobs") and not values["as_json"]:
        raise SettingError("--logprobs shows nothing without --json", "add --json")
    if values.get("plain") and mode not in ("trie", "plain"):
        raise SettingError(f"--plain and --mode {mode} contradict each other", "give one of them")
    if values["no_drafter"] and "mode" in given and mode in _WITH_DRAFTER:
        raise SettingError(
            f"--mode {mode} needs the drafter, which --no-drafter leaves out", "give one of them"
        )
    found = [f"{_option(n)} does nothing at temperature 0" for n in _SAMPLED if greedy and n in given]
    if mode == "paper" and not greedy:
        found.append(
            "mode paper is approximate above temperature 0: its output has not the target's distribution"
        )
    return found


def as_typed(sentence: str, arguments: Sequence[str]) -> str:
    """A refusal that begins with a setting's name in Python, with the option in its place as it was typed."""
    word, _, rest = sentence.partition(" ")
    for option in (_option(word), _option(word.rpartition("_")[2])):  # learning_rate is --rate
        if any(a == option or a.startswith(f"{option}=") for a in arguments):
            return f"{option} {rest}"
    if word not in {field.name for field in fields(GenerationConfig)}:
        return sentence
    short = _SHORT.get(word)
    typed = short is not None and any(a.startswith(short) for a in arguments)
    return f"{short if typed else _option(word)} {rest}"


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


AdapterPath = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        help="A LoRA adapter of the drafter, or of the target; or a directory of `sync pull`.",
        readable=False,
    ),
]

ProfilePath = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="What `omnidraft adapt` left: its adapter and n-grams of this target are used, and not changed; "
        "--adapter or --cache beside it take their place.",
        readable=False,
    ),
]

TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Record the text and what the target would have said into this directory, for training; "
        "stays on this machine.",
        readable=False,
    ),
]


def need_export_packages(*models: str) -> None:
    """Say what is missing instead of failing on an import.

    Args:
        models: what is to be exported; checkpoints, where none is named. Graphs are adopted without torch.
    """
    checkpoint = next((name for name in models if find_graph(name) is None), None)
    if models and checkpoint is None:
        if missing := [name for name in ("onnx", "jinja2") if not find_spec(name)]:
            raise SettingError(
                f"adopting a graph needs {' and '.join(missing)}, which this Python does not have",
                "run `pip install 'omnidraft[adopt]'`",
            )
        return
    names = ("torch", "transformers", "optimum", "onnx", "onnxscript")
    if missing := [name for name in names if not find_spec(name)]:
        raise SettingError(
            f"exporting {checkpoint + ' ' if checkpoint else ''}needs {', '.join(missing)}, "
            f"which this Python ({platform.python_version()}) does not have",
            "run `pip install 'omnidraft[all]'` with Python 3.11, 3.12 or 3.13",
        )


def lengths(text: str) -> Any:
    """The number of draft tokens, or "auto"."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingError(
            f'--num-draft-tokens "{text}" is neither a number nor auto', "4 is usual"
        ) from None


def threshold(text: str) -> Any:
    """Where a head stops a draft, or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise SettingError(
            f'--head-threshold "{text}" is neither a number nor auto', "0.5 is usual"
        ) from None


def lines(file: Path) -> list[str]:
    """The lines of a file of prompts."""
    try:
        found = [line.strip() for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{file} cannot be read as UTF-8 text ({error})", "give a prompt on each line"
        ) from None
    if not found:
        raise SettingError(f"{file} holds no prompts", "give one on each line")
    return found


def short(name: str) -> str:
    """A tokenizer's name for a table's title."""
    path = Path(name)
    return path.parent.name if path.name == "tokenizer.json" else path.name


def print_json(value: Any) -> None:
    """What `--json` promises: one object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
