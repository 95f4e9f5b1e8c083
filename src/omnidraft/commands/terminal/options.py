"""Options that several commands have: names, help texts and the panel of `--help` that each is in."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

# Names that options take. Their modules need numpy, and `--help` is to be there at once; a test compares.
MODES = ("trie", "match", "direct", "paper", "lookup", "plain")
VERIFICATIONS = ("token", "block")
SCHEDULES = ("constant", "decay")

# Panels of `--help`; options without a panel come first, under "Options".
TEXT, DRAFTING, LEARNED, MACHINE = "Text", "Drafting", "Learned and recorded", "Machine"
LEARNING, FILES, GRAPHS, WEIGHTS = "Learning", "Files", "Graphs", "Weights"


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
        help="Public key of the signer, a PEM file. A bundle without a signature by this key is refused.",
    ),
]
# `readable=False`: a path that cannot be read is refused where it is read, in one sentence.
BundlePath = Annotated[
    Path,
    typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.", readable=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

MaxNewTokens = Annotated[
    int,
    typer.Option("--max-new-tokens", "-n", help="Largest number of output tokens.", rich_help_panel=TEXT),
]
Temperature = Annotated[
    float,
    typer.Option(
        "--temperature",
        "-t",
        help="0: always the most probable token. Above 0: tokens are sampled.",
        rich_help_panel=TEXT,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Repeats a sampled text with the same settings and learned n-grams on the same machine "
        "(default: a random seed).",
        rich_help_panel=TEXT,
    ),
]
TopK = Annotated[
    int, typer.Option(help="Keep this many of the most probable tokens; 0 keeps all.", rich_help_panel=TEXT)
]
TopP = Annotated[
    float,
    typer.Option(
        help="Keep the most probable tokens whose probabilities add up to this.", rich_help_panel=TEXT
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        help="Keep tokens with at least this share of the largest probability.", rich_help_panel=TEXT
    ),
]
Penalty = Annotated[
    float, typer.Option(help="Above 1: tokens that were used become less likely.", rich_help_panel=TEXT)
]
Stop = Annotated[
    list[str] | None,
    typer.Option(help="Text that ends the output and is left out of it; repeatable.", rich_help_panel=TEXT),
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Leave out the bundle's prompt template.", rich_help_panel=TEXT)
]
System = Annotated[
    str | None,
    typer.Option(
        "--system", metavar="TEXT", help="System prompt: instructions before the first message.",
        rich_help_panel=TEXT,
    ),
]  # fmt: skip
Messages = Annotated[
    Path | None,
    typer.Option(
        "--messages",
        metavar="FILE",
        help="A conversation: a JSON list of role (system, user, assistant) and content. Its last message is "
        "answered.",
        readable=False,
        rich_help_panel=TEXT,
    ),
]
Logprobs = Annotated[
    bool,
    typer.Option(
        "--logprobs",
        help="With --json: each token's natural log-probability under the distribution that it was sampled "
        "from; at temperature 0, under the target's distribution at temperature 1.",
        rich_help_panel=TEXT,
    ),
]

Mode = Annotated[
    str,
    typer.Option(
        help=f"How to draft: {one_of(MODES)}. plain drafts nothing; lookup copies from the context. All "
        "modes keep the target's distribution, except paper above temperature 0.",
        rich_help_panel=DRAFTING,
    ),
]
Lengths = Annotated[
    str,
    typer.Option(
        "--num-draft-tokens",
        "-k",
        help="Draft tokens of a round, 0 to 48, without copies; auto: the number that is fastest here, or "
        "copies of the text so far where they are faster.",
        rich_help_panel=DRAFTING,
    ),
]
Verification = Annotated[
    str,
    typer.Option(
        help=f"How drafts of mode trie are verified above temperature 0: {one_of(VERIFICATIONS)}, all exact; "
        "auto: the faster one.",
        rich_help_panel=DRAFTING,
    ),
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Use the target alone, as --mode plain.", rich_help_panel=DRAFTING)
]
NoDrafter = Annotated[
    bool,
    typer.Option(
        "--no-drafter", help="Do not load the drafter: less memory, and slower.", rich_help_panel=DRAFTING
    ),
]
Bitwise = Annotated[
    bool,
    typer.Option(
        "--bitwise",
        help="Make plain and speculative greedy text the same in int8 and int4 too; slower.",
        rich_help_panel=DRAFTING,
    ),
]

CachePath = Annotated[
    Path | None,
    typer.Option(
        help="File of learned n-grams: read at the start if it exists, written at the end.",
        readable=False,
        rich_help_panel=LEARNED,
    ),
]
AdapterPath = Annotated[
    Path | None,
    typer.Option(
        "--adapter",
        help="LoRA adapter of the drafter or of the target; or a directory of `sync pull`.",
        readable=False,
        rich_help_panel=LEARNED,
    ),
]
ProfilePath = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="Directory of `omnidraft adapt`: use its adapter and n-grams of this target, and do not change "
        "them. --adapter and --cache replace them.",
        readable=False,
        rich_help_panel=LEARNED,
    ),
]
TracePath = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        help="Record the text and the target's probabilities into this directory, for training. They stay on "
        "this machine.",
        readable=False,
        rich_help_panel=LEARNED,
    ),
]

Threads = Annotated[
    int | None,
    typer.Option(help="Threads of a target pass (default: by the target's size).", rich_help_panel=MACHINE),
]
TargetOn = Annotated[
    str,
    typer.Option(
        metavar="PLACE",
        help="Where the target runs: cpu; npu (the static graphs, on the CPU); qnn, qnn-fp16, coreml or "
        "nnapi, each also with options, such as qnn:soc_model=57.",
        rich_help_panel=MACHINE,
    ),
]
DrafterOn = Annotated[
    str,
    typer.Option(metavar="PLACE", help="Where the drafter runs: the same places.", rich_help_panel=MACHINE),
]
VerifyFiles = Annotated[
    str,
    typer.Option(
        "--verify",
        help="How the bundle's files are checked: full (hash all), stamp (hash them where they changed since "
        "this device last did), or auto: full with --public-key, else stamp.",
        rich_help_panel=MACHINE,
    ),
]
MeasureCosts = Annotated[
    str,
    typer.Option(
        "--measure",
        help="Time this machine for -k auto, for less than two seconds: always, never, or auto: once, where "
        "the bundle's costs are of another machine.",
        rich_help_panel=MACHINE,
    ),
]

Schedule = Annotated[
    str,
    typer.Option(
        help=f"Of the learning rate: {one_of(SCHEDULES)}. decay rises at first and falls to 0 at the end.",
        rich_help_panel=LEARNING,
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option(
        help="Largest number of draft tokens of a prompt with its response (default: the context).",
        rich_help_panel=LEARNING,
    ),
]
TargetAdapter = Annotated[
    Path | None,
    typer.Option(
        help="Adapter that the target had while the traces were recorded (default: none). Only its records "
        "are learned from.",
        readable=False,
        rich_help_panel=FILES,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="File that is kept up to date; the same command goes on from it if it exists.",
        readable=False,
        rich_help_panel=FILES,
    ),
]
CheckpointEvery = Annotated[
    int, typer.Option(min=1, help="Steps between two writes of --checkpoint.", rich_help_panel=FILES)
]


def print_json(value: Any) -> None:
    """Print one JSON object on standard output, for `--json`."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
