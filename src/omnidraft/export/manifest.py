"""Write a bundle's manifest: models, graphs, checks and the hash of every file. Format: spec/03-bundle.md."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from omnidraft import __version__
from omnidraft.errors import ExportError
from omnidraft.export.model_export import ModelExport
from omnidraft.export.options import Options
from omnidraft.export.quantize.coded import stored_table
from omnidraft.export.quantize.parity import DRAFTED
from omnidraft.export.report import Report
from omnidraft.export.tokenizer.compile import COMPILED
from omnidraft.runtime.bundle.hashes import file_sha256
from omnidraft.runtime.bundle.jinja_template import JinjaTemplate
from omnidraft.runtime.bundle.manifest_file import FORMAT, MANIFEST, MAX_BYTES, VERSION, sealed
from omnidraft.runtime.bundle.placement import CPU_GRAPH
from omnidraft.runtime.bundle.train_step_entry import step_object
from omnidraft.runtime.device.machine import this_machine
from omnidraft.runtime.models.onnx_session import ENGINE
from omnidraft.runtime.models.threads import threads_for
from omnidraft.runtime.session.statistics import Statistics

VOCAB_MAP = "vocab_map.safetensors"
CHAT_TEMPLATE = "target/chat_template.jinja"


def write_manifest(
    work: Path, models: Sequence[ModelExport], prompt: dict[str, Any], options: Options, report: Report
) -> None:
    """Write manifest.json: whole or not at all, and after every other file of the bundle."""
    machine = this_machine(ENGINE, threads_for(models[0].parameters), CPU_GRAPH, CPU_GRAPH)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "omnidraft": __version__,
        "drafter": None,
        **{model.role: _model_entry(model) for model in models},
        "vocab_map": VOCAB_MAP,
        "prompt": prompt,
        "pairs": list(options.pairs),
        "costs": {**asdict(report.costs), "machine": machine.as_json()},
        "checks": {
            **_checks(report),
            "tokenizers": {m.role: m.not_compiled for m in models},
            "tables": _tables(work, models),
            "int8_sites": sorted(options.quantization.int8_sites),
            "tried": [asdict(trial) for trial in report.trials],
        },
        "files": _files(work),
    }
    data = sealed(manifest)
    if len(data) > MAX_BYTES:
        raise ExportError(
            f"the manifest has {len(data)} bytes, more than the {MAX_BYTES} that a reader takes",
            "export fewer static graphs",
        )
    temporary = work / f"{MANIFEST}.tmp"
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(work / MANIFEST)


def template_entry(template: JinjaTemplate | None) -> dict[str, Any]:
    """The manifest's entry of the chat template: its file, and the names that it uses."""
    if template is None:
        return {"template": None, "names": {}}
    return {"template": CHAT_TEMPLATE, "names": template.names}


def _checks(report: Report) -> dict[str, Any]:
    return {
        "parity": {role: {q: asdict(p) for q, p in forms.items()} for role, forms in report.parity.items()},
        "train": {name: asdict(parity) for name, parity in report.train.items()},
        "adopted": {role: asdict(adoption) for role, adoption in report.adopted.items()},
        "acceptance": _acceptance(report),
        "texts": [_text(text) for text in report.texts],
        "quality": None if report.quality is None else report.quality.as_json(),
        "limits": list(report.limits),
        "no_system": report.no_system,
        "no_tools": report.no_tools,
    }


def _acceptance(report: Report) -> dict[str, Any] | None:
    if report.before is None or report.after is None:
        return None
    return {"num_draft_tokens": DRAFTED, "before": asdict(report.before), "after": asdict(report.after)}


def _text(counts: Statistics) -> dict[str, Any]:
    named = {
        name: {str(length): n for length, n in sorted(each.items())}
        for name, each in (("lengths", counts.lengths), ("copied_lengths", counts.copied_lengths))
    }
    return {
        "emitted": counts.emitted,
        **named,
        "accepted": counts.accepted,
        "accepted_copies": counts.accepted_copies,
    }


def _tables(work: Path, models: Sequence[ModelExport]) -> dict[str, Any]:
    """The embedding tables by the path of the graph, for the estimate of the memory."""
    graphs = {m.graph: onnx.load(work / m.graph, load_external_data=False).graph for m in models}
    tables = {name: stored_table(graph) for name, graph in graphs.items()}
    return {name: table for name, table in tables.items() if table is not None}


def _files(work: Path) -> dict[str, Any]:
    """Hash and size of every file of the bundle by its path."""
    return {
        file.relative_to(work).as_posix(): {"sha256": file_sha256(file), "bytes": file.stat().st_size}
        for file in sorted(work.rglob("*"))
        if file.is_file() and file != work / MANIFEST
    }


def _model_entry(model: ModelExport) -> dict[str, Any]:
    assert model.contract is not None
    return {
        # Only the last name of a directory: a bundle holds no path of the machine that made it.
        "source": Path(model.checkpoint.name).name
        if Path(model.checkpoint.name).exists()
        else model.checkpoint.name,
        "architecture": model.checkpoint.architecture,
        "parameters": model.parameters,
        "graph": model.graph,
        "tokenizer": f"{model.role}/tokenizer.json",
        "tokenizer_fingerprint": model.tokenizer.fingerprint,
        "compiled_tokenizer": None if model.not_compiled else f"{model.role}/{COMPILED}",
        "vocab_size": model.contract.vocab_size,
        "quantization": model.contract.quantization,
        "layout": model.layout,
        "kv": asdict(model.kv),
        "inputs": [asdict(spec) for spec in model.contract.inputs],
        "outputs": [asdict(spec) for spec in model.contract.outputs],
        "bos_id": model.start[0] if model.start else None,
        "eos_ids": list(model.checkpoint.shape.eos_ids),
        **({"npu": model.npu} if model.npu else {}),
        "fingerprint": model.fingerprint,
        **({} if model.lora is None else {"lora": asdict(model.lora)}),
        **({} if model.train is None else {"train": step_object(model.train)}),
    }
