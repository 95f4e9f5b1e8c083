"""Checkpoint pair in, bundle out: the whole export, checked before it takes its name.

Everything is written into a directory beside the final one and renamed at the end, so a failure leaves
nothing half-written. Format: spec/bundle.md.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from safetensors import SafetensorError
from safetensors.numpy import save_file

from omnidraft import __version__
from omnidraft.chat_template import JinjaTemplate
from omnidraft.errors import ExportError
from omnidraft.export.checkpoint import Checkpoint, read_checkpoint
from omnidraft.export.cpu import GraphContract, export_cpu
from omnidraft.export.parity import (
    DRAFTED,
    Acceptance,
    Parity,
    compare_with_torch,
    measure_acceptance,
    refuse_collapse,
)
from omnidraft.export.prompts import PROMPTS
from omnidraft.export.quantize import FP32, Quantization, quantize
from omnidraft.export.template import compile_template
from omnidraft.export.vocab_map import Roles, build_vocab_map, guess_roles, read_pairs
from omnidraft.export.write import EXTERNAL_ABOVE, write_graph
from omnidraft.runtime.bundle import FORMAT, MANIFEST, VERSION, file_sha256, open_bundle, seal
from omnidraft.runtime.draft_length import Costs
from omnidraft.runtime.drafter import Drafter
from omnidraft.runtime.measure import measure_costs
from omnidraft.runtime.ngram_cache import NgramCache
from omnidraft.runtime.ort_model import KvShape, OrtModel
from omnidraft.runtime.round import Pair
from omnidraft.runtime.tokenizer import Tokenizer
from omnidraft.runtime.vocab_map import VocabMap

Progress = Callable[[str, int, int], None]  # (what is done, steps done, steps in all)

MAX_LENGTH = 2048  # positions, unless the models hold fewer
MIN_LENGTH = 32  # the checks need room for a prompt and a block
STEPS = 9
_VOCAB_MAP = "vocab_map.safetensors"
_CHAT_TEMPLATE = "target/chat_template.jinja"


@dataclass(frozen=True)
class Options:
    """How to export.

    Attributes:
        quantization: of the target.
        drafter_quantization: of the drafter; the target's when None.
        max_length: KV positions; the models' own limit, at most MAX_LENGTH, when None.
        overwrite: replace a bundle that is there.
        external_above: bytes of weights above which a graph gets a file of its own for them.
        pairs: control tokens that mean the same to both models, each as `DRAFTER=TARGET`.
    """

    quantization: Quantization = FP32
    drafter_quantization: Quantization | None = None
    max_length: int | None = None
    overwrite: bool = False
    external_above: int = EXTERNAL_ABOVE
    pairs: tuple[str, ...] = ()

    def quantization_of(self, role: str) -> Quantization:
        """What a model of the pair is stored as."""
        return self.quantization if role == "target" else self.drafter_quantization or self.quantization

    @property
    def name(self) -> str:
        """The quantisation of the pair, for people."""
        target, drafter = self.quantization_of("target").name, self.quantization_of("drafter").name
        return target if target == drafter else f"{target} with an {drafter} drafter"


@dataclass(frozen=True)
class Report:
    """What an export measured.

    Attributes:
        parity: of each model's graph in float32 and as shipped, against torch.
        before, after: the drafter's acceptance with both models in float32, and as shipped.
    """

    path: Path
    bytes: int
    parity: dict[str, dict[str, Parity]]
    before: Acceptance
    after: Acceptance
    costs: Costs


@dataclass
class _Side:
    """One of the two models on its way into a bundle."""

    role: str
    checkpoint: Checkpoint
    tokenizer: Tokenizer
    parameters: int = 0
    contract: GraphContract | None = None

    @property
    def graph(self) -> str:
        return f"{self.role}/cpu/model.onnx"

    @property
    def kv(self) -> KvShape:
        assert self.contract is not None
        c = self.contract
        return KvShape(c.num_layers, c.num_kv_heads, c.head_dim, c.max_length)

    def model(self, file: Path) -> OrtModel:
        return OrtModel(file, self.kv, self.checkpoint.shape.vocab_size)


def export_bundle(
    target: str, drafter: str, out: Path, options: Options = Options(), progress: Progress = lambda *_: None
) -> Report:
    """Export a target and a drafter into a bundle directory.

    Args:
        target, drafter: Hugging Face directories or hub ids.
        out: the bundle to make; must not exist unless `options.overwrite`.
        options: how.
        progress: called before each step.

    Raises:
        CheckpointError, TokenizerError, VocabMapError: an input cannot be exported.
        ExportError: the result would be no good, or the disk is full.
    """
    refuse_existing(out, options.overwrite)
    progress("read checkpoints", 0, STEPS)
    sides = [_read_side("target", target), _read_side("drafter", drafter)]
    read_pairs(sides[1].tokenizer, sides[0].tokenizer, options.pairs)  # a wrong name is told before any work
    with _workplace(out) as work:
        report = _fill(work, sides, options, progress)
        _take_name(work, out)
    return replace(report, path=out)


def refuse_existing(out: Path, overwrite: bool) -> None:
    """Refuse a place that holds something else, before any work is done.

    Raises:
        ExportError: naming the place and the remedy.
    """
    if not out.exists():
        return
    if not overwrite:
        raise ExportError(f"{out} exists already; choose another place or add --overwrite")
    if not (out / MANIFEST).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} is not a bundle, so it is not overwritten; choose another place")


def _read_side(role: str, name: str) -> _Side:
    checkpoint = read_checkpoint(name)
    return _Side(role, checkpoint, Tokenizer.from_file(checkpoint.directory))


@contextmanager
def _workplace(out: Path) -> Iterator[Path]:
    """A directory beside the final one, gone afterwards unless it was renamed."""
    work = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        work.mkdir(parents=True)
        yield work
    except (OSError, SafetensorError) as error:
        # safetensors says so in words only.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            raise ExportError(
                f"the disk is full while writing {out}; free some space or choose another place"
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EROFS, errno.ENOTDIR):
            raise ExportError(f"cannot write {out} ({error.strerror}); choose another place") from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _fill(work: Path, sides: list[_Side], options: Options, progress: Progress) -> Report:
    """Write every file of the bundle into `work` and measure it."""
    target, drafter = sides
    most = min(MAX_LENGTH, *(s.checkpoint.shape.max_positions for s in sides))
    max_length = most if options.max_length is None else options.max_length
    if max_length < MIN_LENGTH:
        raise ExportError(f"a context of {max_length} positions is too short; give {MIN_LENGTH} or more")
    for step, side in enumerate(sides, 1):
        progress(f"export the {side.role}", step, STEPS)
        _write_side(work, side, max_length, options)
    progress("compare vocabularies", 3, STEPS)
    vocab_map = _write_vocab_map(work, drafter, target, options.pairs)
    prompt, template = compile_template(target.checkpoint.directory, target.tokenizer)
    if template is not None:
        (work / _CHAT_TEMPLATE).write_text(template.source, encoding="utf-8")

    prompts = [
        (target.tokenizer.encode_prompt(prompt.prefix, text, prompt.suffix)[: max_length // 2], text)
        for text in PROMPTS
    ]
    pairs = [(ids, _visible(drafter, target, ids)) for ids, _ in prompts]
    parity = {}
    for step, side in enumerate(sides, 4):
        progress(f"compare the {side.role} with torch", step, STEPS)
        graphs = {
            "fp32": side.model(work / f"fp32/{side.role}.onnx"),
            options.quantization_of(side.role).name: side.model(work / side.graph),
        }
        rows = [ids if side is target else draft_ids for ids, draft_ids in pairs]
        found = compare_with_torch(side.checkpoint, list(graphs.values()), [r for r in rows if r][:3])
        parity[side.role] = dict(zip(graphs, found, strict=True))
    progress("measure acceptance before quantisation", 6, STEPS)
    start = _start(drafter)
    before_models = target.model(work / "fp32/target.onnx"), drafter.model(work / "fp32/drafter.onnx")
    before = measure_acceptance(
        before_models[0], Drafter(before_models[1], start), lambda: NgramCache(vocab_map), pairs
    )
    progress("measure acceptance after quantisation", 7, STEPS)
    shipped = target.model(work / target.graph), drafter.model(work / drafter.graph)
    after = measure_acceptance(shipped[0], Drafter(shipped[1], start), lambda: NgramCache(vocab_map), pairs)
    refuse_collapse(before, after, options.name)
    pair = Pair(shipped[0], Drafter(shipped[1], start), NgramCache(vocab_map))
    costs = measure_costs(pair, *pairs[0])
    shutil.rmtree(work / "fp32")
    progress("write the manifest", 8, STEPS)
    report = Report(work, 0, parity, before, after, costs)
    _write_manifest(work, sides, {**asdict(prompt), **_template_entry(template)}, options, report)
    open_bundle(work)  # what a user will read must read
    progress("done", STEPS, STEPS)
    return replace(report, bytes=sum(f.stat().st_size for f in work.rglob("*") if f.is_file()))


def _write_side(work: Path, side: _Side, max_length: int, options: Options) -> None:
    """Write a model's float32 graph for comparison, its shipped graph and its tokenizer."""
    proto, contract = export_cpu(side.checkpoint, max_length, FP32)
    side.parameters = _count_parameters(proto, side.checkpoint)
    for folder in ("fp32", f"{side.role}/cpu"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    write_graph(proto, work / f"fp32/{side.role}.onnx", external_above=options.external_above)
    quantization = options.quantization_of(side.role)
    quantize(proto, quantization)
    write_graph(proto, work / side.graph, external_above=options.external_above)
    side.contract = replace(contract, quantization=quantization.name)
    shutil.copyfile(side.checkpoint.directory / "tokenizer.json", work / f"{side.role}/tokenizer.json")


def _count_parameters(proto: onnx.ModelProto, checkpoint: Checkpoint) -> int:
    """Weights of a float32 graph; rotary tables and small constants are not counted."""
    sizes = [
        int(onnx.numpy_helper.to_array(t).size)
        for t in proto.graph.initializer
        if "rot" not in t.name.lower()
    ]
    return sum(size for size in sizes if size >= checkpoint.shape.hidden_size)


def _write_vocab_map(work: Path, drafter: _Side, target: _Side, pairs: Sequence[str]) -> VocabMap:
    named = read_pairs(drafter.tokenizer, target.tokenizer, pairs)
    vocab_map = build_vocab_map(
        drafter.tokenizer,
        target.tokenizer,
        draft_size=drafter.checkpoint.shape.vocab_size,
        target_size=target.checkpoint.shape.vocab_size,
        roles=_roles(drafter, target).overruled_by(named),
    )
    save_file(vocab_map.tensors(), work / _VOCAB_MAP, metadata=vocab_map.metadata())
    (work / _VOCAB_MAP).chmod(0o644)  # safetensors lets its owner alone read it
    return vocab_map


def _roles(drafter: _Side, target: _Side) -> Roles:
    """End pairs with end as the configurations say; by well-known names where they are silent."""
    ends = drafter.checkpoint.shape.eos_ids, target.checkpoint.shape.eos_ids
    guessed = guess_roles(drafter.tokenizer, target.tokenizer)
    if not all(ends):
        return guessed
    first = (ends[0][0], ends[1][0])
    rest = [pair for pair in guessed.pairs if pair[0] not in ends[0] and pair[1] not in ends[1]]
    return Roles((first, *rest))


def _start(side: _Side) -> list[int]:
    """What a drafter's context begins with."""
    bos = side.tokenizer.controls.get(side.tokenizer.adds_bos or "")
    return [] if bos is None else [bos.id]


def _visible(drafter: _Side, target: _Side, ids: list[int]) -> list[int]:
    return drafter.tokenizer.encode(target.tokenizer.text_of(ids).decode("utf-8", "replace"))


def _template_entry(template: JinjaTemplate | None) -> dict[str, Any]:
    """Where the bundle keeps the chat template, and the names that it uses."""
    if template is None:
        return {"template": None, "names": {}}
    return {"template": _CHAT_TEMPLATE, "names": template.names}


def _write_manifest(
    work: Path, sides: list[_Side], prompt: dict[str, Any], options: Options, report: Report
) -> None:
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "omnidraft": __version__,
        **{side.role: _describe(side) for side in sides},
        "vocab_map": _VOCAB_MAP,
        "prompt": prompt,
        "pairs": list(options.pairs),
        "costs": asdict(report.costs),
        "checks": {
            "parity": {role: {q: asdict(p) for q, p in each.items()} for role, each in report.parity.items()},
            "acceptance": {
                "num_draft_tokens": DRAFTED,
                "before": asdict(report.before),
                "after": asdict(report.after),
            },
        },
        "files": {
            file.relative_to(work).as_posix(): {"sha256": file_sha256(file), "bytes": file.stat().st_size}
            for file in sorted(work.rglob("*"))
            if file.is_file()
        },
    }
    manifest["seal"] = seal(manifest)
    text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
    temporary = work / f"{MANIFEST}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(work / MANIFEST)


def _describe(side: _Side) -> dict[str, Any]:
    assert side.contract is not None
    start = _start(side)
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
        "kv": asdict(side.kv),
        "inputs": [asdict(spec) for spec in side.contract.inputs],
        "outputs": [asdict(spec) for spec in side.contract.outputs],
        "bos_id": start[0] if start else None,
        "eos_ids": list(side.checkpoint.shape.eos_ids),
    }


def _take_name(work: Path, out: Path) -> None:
    """Give the finished directory its final name; an older bundle goes only once the new one is whole."""
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    if out.exists():
        out.rename(old)
    work.rename(out)
    shutil.rmtree(old, ignore_errors=True)
