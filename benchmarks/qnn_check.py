"""Runs a bundle's static graphs on Qualcomm's HTP, or its emulator on x86, and compares them with the CPU.

    python -m benchmarks.qnn_check BUNDLE [--place qnn] [--place qnn-fp16:soc_model=57] [--contexts DIR]

Runs where onnxruntime-qnn is installed beside omnidraft (`make qnn`); no torch, no onnx. Nothing falls back
to the CPU: a graph that QNN takes only in part is an error. `--contexts` also compiles each graph into a
context binary, which a phone loads without compiling, loads it again and compares it with the graph.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from omnidraft.errors import BundleError, OmnidraftError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.placement import placed
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.models.provider import compile_graph
from omnidraft.runtime.models.static_model import StaticGraphs, StaticModel
from omnidraft.runtime.session.loaded_bundle import static_form
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.sample_prompts import PROMPTS

_PROMPTS = 2
_LONGEST = 40  # tokens of a text: the emulator takes seconds for what a phone does in milliseconds


@dataclass(frozen=True)
class Row:
    """A model at a place against its float graphs on the CPU, over every position of some texts.

    Attributes:
        cosine, least_cosine: of the logits, in the mean and at the worst position.
        agreement: share of positions with the same argmax.
        seconds: to load all graphs. contexts: bytes of context binaries, and whether they give the same bits.
    """

    role: str
    place: str
    positions: int
    cosine: float
    least_cosine: float
    agreement: float
    seconds: float
    contexts: int | None = None
    contexts_same: bool | None = None


def check(bundle: Bundle, place: str, contexts: Path | None = None) -> list[Row]:
    """Compare both models of a bundle at a place with their float graphs on the CPU.

    Raises:
        BundleError: QNN is not there, or does not take a graph whole.
        SettingError: the bundle was not exported for the place.
    """
    here = placed(bundle, target_on="npu", drafter_on="npu")
    there = placed(bundle, target_on=place, drafter_on=place)
    return [_check(here, there, role, place, contexts) for role in ("target", "drafter")]


def _check(here: Bundle, there: Bundle, role: str, place: str, contexts: Path | None) -> Row:
    reference = StaticModel(StaticGraphs(static_form(here, getattr(here, role))))
    entry = getattr(there, role)
    form = static_form(there, entry)
    started = time.perf_counter()
    model = StaticModel(StaticGraphs(form, entry.place.provider))
    seconds = time.perf_counter() - started
    tokenizer = Tokenizer.from_file(there.file(entry.tokenizer))
    texts = [tokenizer.encode(prompt)[: min(_LONGEST, model.max_length)] for prompt in PROMPTS[:_PROMPTS]]
    wanted = np.concatenate([rows for text in texts for rows in _pieces(reference, text)])
    found = np.concatenate([rows for text in texts for rows in _pieces(model, text)])
    cosines = (wanted * found).sum(1) / np.linalg.norm(wanted, axis=1) / np.linalg.norm(found, axis=1)
    row = Row(
        role,
        place,
        len(wanted),
        round(float(cosines.mean()), 6),
        round(float(cosines.min()), 6),
        float((wanted.argmax(1) == found.argmax(1)).mean()),
        round(seconds, 3),
    )
    if contexts is None:
        return row
    folder = contexts / role / place.partition(":")[0]
    folder.mkdir(parents=True, exist_ok=True)
    graphs = {
        block: compile_graph(path, entry.place.provider, folder / f"{path.stem}_ctx.onnx")
        for block, path in form.graphs.items()
    }
    again = StaticModel(StaticGraphs(replace(form, graphs=graphs), entry.place.provider))
    same = np.concatenate([rows for text in texts for rows in _pieces(again, text)])
    size = sum(file.stat().st_size for file in folder.iterdir())
    return replace(row, contexts=size, contexts_same=bool(np.array_equal(same, found)))


def _pieces(model: StaticModel, text: Sequence[int]) -> Iterator[Logits]:
    """The rows of a text read in every kind of block, with a rewind in between."""
    model.rewind(0)
    half = max(1, len(text) // 2)
    yield model.score(text[:half]).copy()
    if half < len(text):
        model.score(text[half:])  # thrown away: what follows must not see it
        model.rewind(half)
    for begin in range(half, len(text), 5):  # one alone, four together
        yield model.score(text[begin : begin + 1]).copy()
        if text[begin + 1 : begin + 5]:
            yield model.score(text[begin + 1 : begin + 5]).copy()


def main() -> None:
    """Print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.qnn_check", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument(
        "--place", action="append", help="qnn or qnn-fp16, maybe with options (default: both)"
    )
    parser.add_argument("--contexts", type=Path, help="write context binaries into this new directory")
    # A file: QNN's library writes on standard output, too.
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows into a file")
    options = parser.parse_args()
    places = options.place or ["qnn", "qnn-fp16:soc_model=57"]
    try:
        if options.contexts is not None and options.contexts.exists():
            raise BundleError(f"{options.contexts} exists already", "choose another place for --contexts")
        bundle = open_bundle(options.bundle)
        rows = [row for place in places for row in check(bundle, place, options.contexts)]
    except OmnidraftError as error:
        sys.exit(f"qnn_check: {error}")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    print(f"{'model':8} {'place':24} {'positions':>9} {'cosine':>9} {'least':>9} {'argmax':>7} {'load s':>7}")
    for row in rows:
        print(
            f"{row.role:8} {row.place:24} {row.positions:9} {row.cosine:9.5f} {row.least_cosine:9.5f} "
            f"{row.agreement:7.1%} {row.seconds:7.2f}"
            + ("" if row.contexts is None else f"  {row.contexts:,} bytes, same bits: {row.contexts_same}")
        )


if __name__ == "__main__":
    main()
