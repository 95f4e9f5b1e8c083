"""The starter pairs in every quantisation: size, perplexity, acceptance and tokens a second, beside fp32.

    python -m benchmarks.export.quantization [--prompts N] [--forms fp32,int4-e8] [--json] [--write PAGE]

Both models of a pair are stored in the same form. Perplexity is per token, on rows that no starter model was
trained on. Acceptance is of 4 draft tokens a round, greedy, with a cold cache. Each prompt is decoded in all
forms, plain and with omnidraft (draft length auto, costs measured first), before the next prompt, so a drift
of the machine's speed affects all forms. Ratios are geometric means of the prompts' ratios to fp32.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from benchmarks.starters import unseen
from benchmarks.support.task_data import DATA, require, rows
from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.commands.starters import STARTERS, starter
from omnidraft.commands.terminal.output import progress_bar
from omnidraft.export.bundle import export_bundle
from omnidraft.export.graph.write import write_graph
from omnidraft.export.options import Options
from omnidraft.export.quantize.cpu import export_cpu
from omnidraft.export.quantize.parity import measure_acceptance
from omnidraft.export.quantize.quantization import FP32, Quantization, named
from omnidraft.export.quantize.quantize import Calibration, quantize
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.session.api import Session, load_bundle
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.sample_prompts import PROMPTS
from recipes.starters.data import chat, unseen_documents

NAMES = (
    "fp32", "int8", "int8-b128", "int4", "int4-rtn", "int4-k-quant", "int4-hqq", "int4-gptq", "int4-b128",
    "int4-b128-rtn", "int4-b128-k-quant", "int4-b128-hqq", "int4-b128-gptq", "int4-h8", "int4-b128-h8",
    "int4-e8", "int4-e4", "int4-b128-e4-h8-gptq",
)  # fmt: skip
CALIBRATION_ROWS = 32  # training rows for "with rows"; other forms use the built-in prompts of an export
WITH_ROWS = ("int4-gptq", "int4-b128-gptq", "int4-b128-e4-h8-gptq")
_DOCUMENTS = 6  # of each task, for perplexity
_NEW_TOKENS = 40
_PASS = 64
_BEGIN, _END = "<!-- table -->\n", "<!-- end of table -->\n"


@dataclass(frozen=True)
class Form:
    """The form of a model: a quantisation, and whether gptq is calibrated on training rows of a task."""

    quantization: Quantization
    with_rows: bool = False

    @property
    def name(self) -> str:
        return self.quantization.name + (", with rows" if self.with_rows else "")


@dataclass
class Row:
    """The figures of one pair in one form; `plain` and `speculative` are seconds a token of each prompt."""

    target: str
    form: str
    target_bytes: int = 0
    drafter_bytes: int = 0
    perplexity: float = 0.0
    drafter_perplexity: float = 0.0
    acceptance: float = 0.0
    same_text: int = 0
    plain: list[float] = field(default_factory=list)
    speculative: list[float] = field(default_factory=list)


def all_forms() -> list[Form]:
    own = [Form(named(name)) for name in NAMES]
    return [*own, *(Form(named(name), with_rows=True) for name in WITH_ROWS)]


def perplexity(model: Model, texts: Sequence[list[int]]) -> float:
    """Per token over whole texts, without the first token of each."""
    nats, count = 0.0, 0
    for ids in texts:
        model.rewind(0)
        for at in range(0, len(ids) - 1, _PASS):
            part = ids[at : at + _PASS + 1]
            logits = model.score(part[:-1]).astype(np.float64)
            expected = logits[np.arange(len(part) - 1), part[1:]]
            nats += float((np.logaddexp.reduce(logits, axis=1) - expected).sum())
            count += len(part) - 1
    return math.exp(nats / count)


@dataclass(frozen=True)
class Source:
    """A starter model in float32, and its tokenizer."""

    proto: ModelProto
    graph: Path
    entry: ModelEntry
    tokenizer: Tokenizer
    start: list[int]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts in the model's ids, cut at its context."""
        limit = self.entry.kv.max_length
        return [[*self.start, *self.tokenizer.encode(text)][:limit] for text in texts]

    def stored(self, form: Form, trained: Sequence[str]) -> tuple[Graph, int]:
        """The model in a form, and its bytes on disk."""
        proto = ModelProto()
        proto.CopyFrom(self.proto)
        texts = trained if form.with_rows else PROMPTS
        quantize(proto, form.quantization, Calibration(self.graph, self.ids(texts)))
        file = self.graph.with_name(f"{self.graph.stem}-{form.name.replace(', ', '-')}.onnx")
        written = write_graph(proto, file)
        graph = Graph(file, self.entry.kv, self.entry.vocab_size)
        return graph, sum(each.stat().st_size for each in written)


def read_source(name: str, entry: ModelEntry, tokenizer: Tokenizer, place: Path) -> Source:
    proto, _ = export_cpu(read_checkpoint(str(starter(name))), entry.kv.max_length, FP32)
    write_graph(proto, place / f"{name}.onnx")
    start = entry.eos_ids[0] if entry.bos_id is None else entry.bos_id  # as in training
    return Source(proto, place / f"{name}.onnx", entry, tokenizer, [start])


def measure_pair(
    name: str, forms: Sequence[Form], place: Path, prompts: Sequence[str], step: Callable[[str], None]
) -> list[Row]:
    """Some forms of one pair; ratios are to the first."""
    bundle = place / f"starter-{name}"
    step(f"export starter-{name}")
    export_bundle(str(starter(name)), str(starter("drafter")), bundle, Options(FP32))
    weights = load_bundle(bundle)
    assert weights.drafter_tokenizer is not None
    sources = (
        read_source(name, weights.bundle.target, weights.target_tokenizer, place),
        read_source("drafter", weights.bundle.drafter, weights.drafter_tokenizer, place),
    )
    documents = unseen_documents(DATA)
    texts = [t for task in ("gsm8k", "mbpp", "humaneval", "scitldr") for t in documents[task][:_DOCUMENTS]]
    trained = [chat(row["question"], row["answer"]) for row in rows("gsm8k/train")[:CALIBRATION_ROWS]]
    measured, sessions = [], []
    for form in forms:
        step(f"starter-{name} in {form.name}")
        graphs, sizes = zip(*(source.stored(form, trained) for source in sources), strict=True)
        session = Session(replace(weights, target=graphs[0], drafter=graphs[1]))
        row = Row(f"starter-{name}", form.name, *sizes)
        row.perplexity, row.drafter_perplexity = (
            perplexity(OrtModel.on(graph), source.ids(texts))
            for graph, source in zip(graphs, sources, strict=True)
        )
        row.acceptance = acceptance(session, weights, prompts)
        session.measure(prompts[0])
        measured.append(row)
        sessions.append(session)
    for i, prompt in enumerate([prompts[0], *prompts]):
        step(f"starter-{name}, prompt {i} of {len(prompts)}")
        for row, session in zip(measured, sessions, strict=True):
            time_prompt(row, session, prompt, keep=i > 0)  # the first time warms up
    return measured


def acceptance(session: Session, weights: LoadedBundle, prompts: Sequence[str]) -> float:
    ids = [session.encode(prompt) for prompt in prompts]
    pairs = [(each, session.draft_prompt(each)) for each in ids]
    target = session.loaded.target.new_model()
    measured = measure_acceptance(
        target, session.models.drafter, lambda: NgramCache(weights.vocab_map), pairs
    )
    return measured.of_drafted


def time_prompt(row: Row, session: Session, prompt: str, *, keep: bool) -> None:
    plain, speculative = (
        session.generate(prompt, max_new_tokens=_NEW_TOKENS, mode=mode, ignore_eos=True).finish()
        for mode in ("plain", "trie")
    )
    if keep:
        row.plain.append(plain.statistics.total_seconds / len(plain.token_ids))
        row.speculative.append(speculative.statistics.total_seconds / len(speculative.token_ids))
        row.same_text += plain.token_ids == speculative.token_ids


def ratio(seconds: Sequence[float], reference: Sequence[float]) -> float:
    """How many times as fast as the reference: geometric mean over prompts."""
    return math.exp(float(np.mean(np.log(np.array(reference) / np.array(seconds)))))


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown; a figure in brackets is the ratio to fp32."""
    head = (
        "target", "form", "target MB", "drafter MB", "perplexity", "drafter's", "acceptance",
        "plain tokens/s", "with omnidraft", "same text",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        first = next(each for each in rows if each.target == row.target)
        cells = (
            row.target,
            row.form,
            f"{row.target_bytes / 1e6:.1f} ({row.target_bytes / first.target_bytes:.2f})",
            f"{row.drafter_bytes / 1e6:.2f} ({row.drafter_bytes / first.drafter_bytes:.2f})",
            f"{row.perplexity:.2f} ({row.perplexity / first.perplexity:.3f})",
            f"{row.drafter_perplexity:.2f} ({row.drafter_perplexity / first.drafter_perplexity:.3f})",
            f"{row.acceptance:.1%} ({row.acceptance / max(first.acceptance, 1e-9):.2f})",
            f"{1 / np.median(row.plain):.0f} ({ratio(row.plain, first.plain):.2f})",
            f"{1 / np.median(row.speculative):.0f} ({ratio(row.speculative, first.speculative):.2f})",
            f"{row.same_text} of {len(row.plain)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_table(file: Path, text: str) -> None:
    """Put the table between the marks of a page."""
    page = file.read_text(encoding="utf-8")
    if _BEGIN not in page or _END not in page:
        sys.exit(f"{file} has no place for the table; add the lines {_BEGIN.strip()} and {_END.strip()}")
    head, rest = page.split(_BEGIN, 1)
    file.write_text(head + _BEGIN + text + _END + rest.split(_END, 1)[1], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each of the four tasks")
    parser.add_argument("--forms", help="names, separated by commas; the first is the reference")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", type=Path, help="a page to write the table into")
    parser.add_argument("--machine", default="two x86-64 cores with AVX-512", help="for the page")
    options = parser.parse_args()
    require("tasks")
    prompts = [prompt for prompts in unseen(options.prompts).values() for prompt in prompts]
    names = options.forms and options.forms.split(",")
    forms = [Form(named(each)) for each in names] if names else all_forms()
    steps = len(STARTERS) * (2 + len(forms) + len(prompts))
    measured: list[Row] = []
    with tempfile.TemporaryDirectory() as place, progress_bar("quantization") as bar:
        done = iter(range(steps))
        for name in STARTERS:
            report = lambda s: bar.stage(s, next(done), steps)  # noqa: E731
            measured += measure_pair(name, forms, Path(place), prompts, report)
    if options.json:
        print(json.dumps([asdict(row) for row in measured], indent=2))
    else:
        print(table(measured))
    if options.write:
        command = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        origin = f"Commit {commit}, {options.machine}, one thread, {len(prompts)} prompts.\n\n"
        write_table(options.write, origin + table(measured))


if __name__ == "__main__":
    main()
