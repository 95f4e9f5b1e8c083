"""What a bundle says of itself: models, graphs, checks and the hash of every file. Format: spec/bundle.md."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omnidraft import __version__
from omnidraft.export.model_export import ModelExport
from omnidraft.export.options import Options, Report
from omnidraft.export.quantize.parity import DRAFTED
from omnidraft.runtime.bundle.bundle import FORMAT, MANIFEST, VERSION, OrtFiles, file_sha256, seal
from omnidraft.runtime.bundle.train_step_entry import step_object
from omnidraft.runtime.session.chat_template import JinjaTemplate

VOCAB_MAP = "vocab_map.safetensors"
CHAT_TEMPLATE = "target/chat_template.jinja"


def write_manifest(
    work: Path,
    sides: list[ModelExport],
    prompt: dict[str, Any],
    options: Options,
    report: Report,
    ort: OrtFiles | None = None,
) -> None:
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "omnidraft": __version__,
        **{side.role: _describe(side) for side in sides},
        "vocab_map": VOCAB_MAP,
        "prompt": prompt,
        "pairs": list(options.pairs),
        "costs": asdict(report.costs),
        "checks": {
            "parity": {role: {q: asdict(p) for q, p in each.items()} for role, each in report.parity.items()},
            "train": {name: asdict(each) for name, each in report.train.items()},
            "adopted": {role: asdict(each) for role, each in report.adopted.items()},
            "acceptance": {
                "num_draft_tokens": DRAFTED,
                "before": asdict(report.before),
                "after": asdict(report.after),
            },
            "limits": list(report.limits),
        },
        "files": {
            file.relative_to(work).as_posix(): {"sha256": file_sha256(file), "bytes": file.stat().st_size}
            for file in sorted(work.rglob("*"))
            if file.is_file()
        },
    }
    if ort is not None:
        manifest["ort"] = asdict(ort)
    manifest["seal"] = seal(manifest)
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    temporary = work / f"{MANIFEST}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(work / MANIFEST)


def template_entry(template: JinjaTemplate | None) -> dict[str, Any]:
    """Where the bundle keeps the chat template, and the names that it uses."""
    if template is None:
        return {"template": None, "names": {}}
    return {"template": CHAT_TEMPLATE, "names": template.names}


def _describe(side: ModelExport) -> dict[str, Any]:
    assert side.contract is not None
    return {
        # A directory's own name only: no path of this machine travels with a bundle.
        "source": Path(side.checkpoint.name).name
        if Path(side.checkpoint.name).exists()
        else side.checkpoint.name,
        "architecture": side.checkpoint.architecture,
        "parameters": side.parameters,
        "graph": side.graph,
        "tokenizer": f"{side.role}/tokenizer.json",
        "tokenizer_fingerprint": side.tokenizer.fingerprint,
        "vocab_size": side.contract.vocab_size,
        "quantization": side.contract.quantization,
        "layout": side.layout,
        "kv": asdict(side.kv),
        "inputs": [asdict(spec) for spec in side.contract.inputs],
        "outputs": [asdict(spec) for spec in side.contract.outputs],
        "bos_id": side.start[0] if side.start else None,
        "eos_ids": list(side.checkpoint.shape.eos_ids),
        **({"npu": side.npu} if side.npu else {}),
        "fingerprint": side.fingerprint,
        **({} if side.lora is None else {"lora": asdict(side.lora)}),
        **({} if side.head is None else {"head": asdict(side.head)}),
        **({} if side.train is None else {"train": step_object(side.train)}),
    }
