"""Every architecture in every quantisation and for every provider, exported and checked: a table.

    python -m benchmarks.export.export_matrix [--only "llama; qwen2"] [--forms fp32,int4] [--summary]

Each row is an export of a small random model as target and as drafter, both in the form of the row, so a
round accepts its whole draft if single tokens and blocks agree. Parity and greedy agreement are against
torch in float32. A row that cannot be exported or run on this machine says why; a failed export makes the
command fail.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onnx
from rich.console import Console
from rich.table import Table

from benchmarks.support.small_models import MODELS, save_small_model
from omnidraft.commands.terminal.output import progress_bar
from omnidraft.doctor.mobile import ESTIMATED, estimate
from omnidraft.errors import OmnidraftError
from omnidraft.export.bundle import export_bundle
from omnidraft.export.npu.npu import NpuOptions
from omnidraft.export.options import Options
from omnidraft.export.quantize.parity import Parity, measure_acceptance
from omnidraft.export.quantize.quantization import named
from omnidraft.export.report import Report
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.placement import placed
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.models.load_graph import static_form
from omnidraft.runtime.models.static_model import StaticGraphs, StaticModel
from omnidraft.runtime.session.api import TextSession, load_bundle
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.sample_prompts import PROMPTS

FORMS = ("fp32", "int8", "int4", "int4-rtn", "int4-k-quant", "int4-gptq")
PLACES = ("coreml", "nnapi", "qnn", "qnn-fp16")  # of the static graphs
QNN_PYTHON = "OMNIDRAFT_QNN_PYTHON"
_LENGTH = 256  # positions
_SHOWN = "verify"  # the static graph whose nodes are shown; the three differ only in their shapes
SUMMED = ("fp32", "int8", "int4", "int4-gptq")  # forms in the summary


@dataclass(frozen=True)
class Row:
    """One export.

    Attributes:
        model: the architecture.
        form: the quantisation.
        provider: cpu, or the place of the static graphs.
        nodes: number of nodes of the graph.
        taken: number of nodes that the provider takes.
        partitions: number of parts that the provider takes; None where the provider was not asked.
        bytes: size of the model's graphs and weights.
        parity: largest difference to torch's logits.
        agreement: share of positions with torch's argmax.
        acceptance: share of draft tokens that the fp32 target accepts.
        note: a remark.
        failed: whether the note is a failure.
    """

    model: str
    form: str
    provider: str
    nodes: int | None = None
    taken: int | None = None
    partitions: int | None = None
    bytes: int | None = None
    parity: float | None = None
    agreement: float | None = None
    acceptance: float | None = None
    note: str = ""
    failed: bool = False


def cpu_rows(model: str, checkpoint: Path, forms: tuple[str, ...], work: Path) -> Iterator[Row]:
    """The dynamic graph of a model in every quantisation."""
    for form in forms:
        row = Row(model, form, "cpu")
        out = work / form
        try:
            report = export_bundle(str(checkpoint), str(checkpoint), out, _options(form))
        except OmnidraftError as error:
            yield replace(row, note=str(error).replace(str(checkpoint), model), failed=True)
            continue
        bundle = open_bundle(out)
        row = _measured(row, bundle, report.parity["drafter"][named(form).name], "drafter/cpu/")
        assert report.after is not None, "there is a drafter"
        row = replace(row, acceptance=report.after.of_drafted)
        yield row


def _options(form: str, npu: NpuOptions | None = None) -> Options:
    return Options(named(form), max_length=_LENGTH, npu=npu)


def _measured(row: Row, bundle: Bundle, parity: Parity, folder: str) -> Row:
    size = sum(
        record["bytes"] for name, record in bundle.manifest["files"].items() if name.startswith(folder)
    )
    return replace(row, bytes=size, parity=parity.max_difference, agreement=parity.greedy_agreement)


def static_rows(model: str, checkpoint: Path, work: Path) -> Iterator[Row]:
    """The static graphs of a model for every accelerator."""
    out = work / "npu"
    try:
        report = export_bundle(str(checkpoint), str(checkpoint), out, _options("fp32", NpuOptions(PLACES)))
    except OmnidraftError as error:  # an architecture without static graphs is refused by name
        for place in PLACES:
            yield Row(model, "-", place, note=str(error).replace(str(checkpoint), model))
        return
    bundle = open_bundle(out)
    for place in PLACES:
        yield _static_row(model, place, bundle, report)
    yield from _qnn_rows(model, out)


def _static_row(model: str, place: str, bundle: Bundle, report: Report) -> Row:
    form = static_form(bundle, placed(bundle, drafter_on=place).drafter)
    kind = "qdq" if place == "qnn" else "float"
    graph = next(file for file in form.graphs.values() if file.stem.startswith(_SHOWN))
    row = Row(model, kind, place, nodes=len(onnx.load(graph, load_external_data=False).graph.node))
    row = _measured(row, bundle, report.parity["drafter"][f"npu-{kind}"], "drafter/npu/")
    row = replace(row, acceptance=_acceptance(bundle, StaticModel(StaticGraphs(form))))
    for provider in (each for each in ESTIMATED if each.lower().startswith(place)):
        usable = estimate(graph, provider)
        note = "" if usable.taken == usable.nodes else usable.sentence()
        row = replace(
            row, nodes=usable.nodes, taken=usable.taken, partitions=usable.partitions,
            note=note or "estimated by onnxruntime's usability checker", failed=bool(note),
        )  # fmt: skip
    return replace(row, note=row.note or "figures of these graphs on the CPU")


def _acceptance(bundle: Bundle, drafter: StaticModel) -> float:
    """The acceptance of a drafter's static graphs on the CPU by the fp32 target."""
    weights = load_bundle(bundle)
    session = TextSession(weights)
    ids = [session.encode(prompt)[: _LENGTH // 2] for prompt in PROMPTS]
    pairs = [(each, session.loaded.draft_prompt(each)) for each in ids]
    target = weights.target.new_model()
    measured = measure_acceptance(target, Drafter(drafter), lambda: NgramCache(weights.vocab_map), pairs)
    return measured.of_drafted


def _qnn_rows(model: str, bundle: Path) -> Iterator[Row]:
    """The graphs in QNN's emulator, where onnxruntime-qnn is installed; a fallback to the CPU is an error."""
    python = os.environ.get(QNN_PYTHON)
    if not python:
        for place in ("qnn", "qnn-fp16"):
            yield Row(model, "-", f"{place} emulator", note=f"not run: {QNN_PYTHON} is not set (`make qnn`)")
        return
    output = bundle.with_name("qnn.json")
    command = [python, "-m", "benchmarks.export.qnn_check", str(bundle), "--json", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield Row(model, "-", "qnn emulator", note=done.stderr.strip().splitlines()[-1], failed=True)
        return
    for checked in json.loads(output.read_text(encoding="utf-8")):
        if checked["role"] == "drafter":
            place = checked["place"].partition(":")[0]
            yield Row(
                model, "qdq" if place == "qnn" else "float", f"{place} emulator", partitions=1,
                agreement=checked["agreement"],
                note=f"whole in the emulator, against its float graphs; cosine {checked['cosine']:.4f}",
            )  # fmt: skip


def matrix(models: tuple[str, ...], forms: tuple[str, ...]) -> list[Row]:
    """All rows."""
    rows: list[Row] = []
    with progress_bar("export") as bar, tempfile.TemporaryDirectory() as place:
        for done, model in enumerate(models):
            bar.stage(model, done, len(models))
            work = Path(place) / str(done)
            checkpoint = save_small_model(model, work / "checkpoint")
            rows += cpu_rows(model, checkpoint, forms, work)
            rows += static_rows(model, checkpoint, work)
    return rows


COLUMNS = ("model", "weights", "provider", "nodes", "parts", "kB", "parity", "greedy", "accepted", "note")


def cells(row: Row) -> list[str]:
    """The cells of a row."""
    taken = "" if row.nodes is None else str(row.nodes)
    if row.taken is not None and row.taken != row.nodes:
        taken = f"{row.taken} of {row.nodes}"
    return [
        row.model, row.form, row.provider, taken,
        "" if row.partitions is None else str(row.partitions),
        "" if row.bytes is None else f"{row.bytes / 1000:.0f}",
        "" if row.parity is None else f"{row.parity:.1e}",
        "" if row.agreement is None else f"{row.agreement:.1%}",
        "" if row.acceptance is None else f"{row.acceptance:.1%}",
        ("FAILED: " if row.failed else "") + row.note,
    ]  # fmt: skip


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*cells(row))
    Console(width=None if sys.stdout.isatty() else 220).print(table)


def summary(rows: list[Row]) -> Iterator[str]:
    """A line of Markdown for each model: the table of docs/npu.md."""
    names = ["model", "nodes", "parity, fp32", *(f"greedy, {form}" for form in SUMMED), "least accepted"]
    yield f"| {' | '.join([*names, 'static graphs'])} |"
    yield "|---" * (len(names) + 1) + "|"
    for model in dict.fromkeys(row.model for row in rows):
        cpu = {row.form: row for row in rows if (row.model, row.provider) == (model, "cpu")}
        whole = cells(cpu["fp32"]) if "fp32" in cpu else [""] * len(COLUMNS)
        greedy = [cells(cpu[form])[7] if form in cpu else "" for form in SUMMED]
        least = min((row.acceptance for row in cpu.values() if row.acceptance is not None), default=0.0)
        failed = [row.form for row in cpu.values() if row.failed]
        figures = [model, whole[3], whole[6], *greedy, f"FAILED: {failed}" if failed else f"{least:.1%}"]
        yield f"| {' | '.join([*figures, _static(model, rows)])} |"


def _static(model: str, rows: list[Row]) -> str:
    """What became of the static graphs of a model."""
    static = [row for row in rows if row.model == model and row.provider != "cpu"]
    failed = [row.provider for row in static if row.failed]
    if failed:
        return f"FAILED: {', '.join(failed)}"
    taken = [row.provider for row in static if row.form != "-" and "emulator" not in row.provider]
    emulated = [f"{row.agreement:.1%}" for row in static if row.agreement and "emulator" in row.provider]
    if not taken:
        return "refused: a window" if any("window" in row.note for row in static) else "refused"
    return ", ".join(taken) + (f"; greedy in QNN's emulator {', '.join(emulated)}" if emulated else "")


def main() -> None:
    """Print the table; status 1 where a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.export.export_matrix", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", help="models, separated by semicolons (default: all)")
    parser.add_argument("--forms", default=",".join(FORMS), help="quantisations, separated by commas")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--summary", action="store_true", help="print a line for each model, in Markdown")
    options = parser.parse_args()
    models = (
        tuple(MODELS) if options.only is None else tuple(name.strip() for name in options.only.split(";"))
    )
    if unknown := [name for name in models if name not in MODELS]:
        parser.error(f"no model {unknown[0]!r}; choose from {'; '.join(MODELS)}")
    rows = matrix(models, tuple(options.forms.split(",")))
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    elif options.summary:
        print("\n".join(summary(rows)))
    else:
        show(rows)
    sys.exit(any(row.failed for row in rows))


if __name__ == "__main__":
    main()
