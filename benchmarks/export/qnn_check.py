"""A bundle's static graphs on Qualcomm's HTP, or its emulator on x86, compared with the CPU.

    python -m benchmarks.export.qnn_check BUNDLE [--place qnn] [--place qnn-fp16:soc_model=57] ...

Needs onnxruntime-qnn beside omnidraft (`make qnn`), but neither torch nor onnx. There is no fallback to the
CPU: a graph that QNN takes only in part is an error. `--contexts` also compiles each graph into a context
binary, which a phone loads without compiling, loads the binary and compares it with the graph.
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
from omnidraft.runtime.bundle.places import Provider
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.models.load_graph import static_form
from omnidraft.runtime.models.provider import open_graph
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs, StaticModel
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.sample_prompts import PROMPTS

_PROMPTS = 2
_LONGEST = 40  # tokens of a text; the emulator is about a thousand times slower than a phone


@dataclass(frozen=True)
class Row:
    """A model at a place against its float graphs on the CPU, over every position of some texts.

    Attributes:
        role: target or drafter.
        place: where the graphs ran.
        positions: number of compared positions.
        cosine: mean cosine of the logits.
        least_cosine: cosine at the worst position.
        agreement: share of positions with the same argmax.
        seconds: time to load all graphs.
        contexts: bytes of the context binaries.
        contexts_same: whether the context binaries give the same bits as the graphs.
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
        BundleError: QNN is not installed, or does not take a whole graph.
        SettingError: the bundle was not exported for the place.
    """
    on_cpu = placed(bundle, target_on="npu", drafter_on="npu")
    on_place = placed(bundle, target_on=place, drafter_on=place)
    return [_check(on_cpu, on_place, role, place, contexts) for role in ("target", "drafter")]


def _check(on_cpu: Bundle, on_place: Bundle, role: str, place: str, contexts: Path | None) -> Row:
    reference = StaticModel(StaticGraphs(static_form(on_cpu, getattr(on_cpu, role))))
    entry = getattr(on_place, role)
    form = static_form(on_place, entry)
    started = time.perf_counter()
    model = StaticModel(StaticGraphs(form, entry.place.provider))
    seconds = time.perf_counter() - started
    tokenizer = LibraryTokenizer.from_file(on_place.file(entry.tokenizer))
    texts = [tokenizer.encode(prompt)[: min(_LONGEST, model.max_length)] for prompt in PROMPTS[:_PROMPTS]]
    expected, actual = _rows(reference, texts), _rows(model, texts)
    cosines = (expected * actual).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(actual, axis=1)
    row = Row(
        role,
        place,
        len(expected),
        round(float(cosines.mean()), 6),
        round(float(cosines.min()), 6),
        float((expected.argmax(1) == actual.argmax(1)).mean()),
        round(seconds, 3),
    )
    if contexts is None:
        return row
    folder = contexts / role / place.partition(":")[0]
    compiled = _compiled(form, entry.place.provider, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    same = bool(np.array_equal(_rows(compiled, texts), actual))
    return replace(row, contexts=size, contexts_same=same)


def _compiled(form: StaticForm, provider: Provider, folder: Path) -> StaticModel:
    """The model of the context binaries of its graphs, which are written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    graphs = {block: folder / f"{path.stem}_ctx.onnx" for block, path in form.graphs.items()}
    for block, out in graphs.items():
        entries = {"ep.context_enable": "1", "ep.context_file_path": str(out)}
        open_graph(form.graphs[block], provider, 1, entries)
    return StaticModel(StaticGraphs(replace(form, graphs=graphs), provider))


def _rows(model: StaticModel, texts: Sequence[Sequence[int]]) -> Logits:
    return np.concatenate([rows for text in texts for rows in _pieces(model, text)])


def _pieces(model: StaticModel, text: Sequence[int]) -> Iterator[Logits]:
    """The rows of a text, read in blocks of every kind, with a rewind in between."""
    model.rewind(0)
    half = max(1, len(text) // 2)
    yield model.score(text[:half]).copy()
    if half < len(text):
        model.score(text[half:])  # rewound: later passes must not see these positions
        model.rewind(half)
    for begin in range(half, len(text), 5):  # one token alone, four together
        yield model.score(text[begin : begin + 1]).copy()
        if text[begin + 1 : begin + 5]:
            yield model.score(text[begin + 1 : begin + 5]).copy()


def main() -> None:
    """Print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.export.qnn_check", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument(
        "--place", action="append", help="qnn or qnn-fp16, with or without options (default: both)"
    )
    parser.add_argument("--contexts", type=Path, help="write context binaries into this new directory")
    # A file, because QNN's library also writes to standard output.
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows into a file")
    options = parser.parse_args()
    places = options.place or ["qnn", "qnn-fp16:soc_model=57"]
    try:
        if options.contexts is not None and options.contexts.exists():
            raise BundleError(f"{options.contexts} exists", "choose another directory for --contexts")
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
