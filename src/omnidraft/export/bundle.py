"""Checkpoint pair in, bundle out: the whole export, checked before it takes its name."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from safetensors.numpy import save_file

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.template import compile_template
from omnidraft.checkpoints.workplace import refuse_existing, take_name, workplace
from omnidraft.errors import ExportError
from omnidraft.export.adopt.adopt import check_adopted
from omnidraft.export.adopt.optimum_directory import OptimumDirectory
from omnidraft.export.build_vocab_map import Roles, build_vocab_map, guess_roles, read_pairs
from omnidraft.export.export_memory import peak_bytes, room_for_weights
from omnidraft.export.manifest import CHAT_TEMPLATE, VOCAB_MAP, template_entry, write_manifest
from omnidraft.export.model_export import ModelExport, compare_side, limits, read_side, write_side
from omnidraft.export.npu.npu import write_static
from omnidraft.export.npu.static_weights import refuse_static
from omnidraft.export.npu_checks import finish_static
from omnidraft.export.options import DEFAULTS, Options, Report
from omnidraft.export.ort_format import refuse_too_large, write_ort
from omnidraft.export.quantize.parity import Acceptance, measure_acceptance, refuse_collapse
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.decoding.speculate import Pair
from omnidraft.runtime.session.measure import measure_costs
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sample_prompts import PROMPTS

Progress = Callable[[str, int, int], None]  # (what is done, steps done, steps in all)

MAX_LENGTH = 2048  # positions, unless the models hold fewer
MIN_LENGTH = 32  # the checks need room for a prompt and a block
STEPS = 9


def export_bundle(
    target: str, drafter: str, out: Path, options: Options = DEFAULTS, progress: Progress = lambda *_: None
) -> Report:
    """Export a target and a drafter into a bundle directory.

    Args:
        target, drafter: Hugging Face directories or hub ids, or directories that Optimum exported.
        out: the bundle to make; must not exist unless `options.overwrite`.
        options: how.
        progress: called before each step.

    Raises:
        CheckpointError, TokenizerError, VocabMapError: an input cannot be exported.
        ExportError: the result would be no good, or the disk is full.
    """
    started = time.perf_counter()
    refuse_existing(out, options.overwrite)
    progress("read checkpoints", 0, STEPS)
    sides = [read_side("target", target), read_side("drafter", drafter)]
    if options.npu is not None:
        for side in sides:
            refuse_static(_checkpoint(side))
    read_pairs(sides[1].tokenizer, sides[0].tokenizer, options.pairs)  # a wrong name is told before any work
    with workplace(out) as work:
        report = _fill(work, sides, options, progress)
        take_name(work, out)
    seconds = time.perf_counter() - started
    return replace(report, path=out, seconds=seconds, peak_bytes=peak_bytes())


def _fill(work: Path, sides: list[ModelExport], options: Options, progress: Progress) -> Report:
    """Write every file of the bundle into `work` and measure it."""
    target, drafter = sides
    most = min(MAX_LENGTH, *(s.checkpoint.shape.max_positions for s in sides))
    max_length = most if options.max_length is None else options.max_length
    if max_length < MIN_LENGTH:
        raise ExportError(f"a context of {max_length} positions is too short", f"give {MIN_LENGTH} or more")
    room = room_for_weights(work) if options.check_memory is None else options.check_memory
    for step, side in enumerate(sides, 1):
        progress(f"export the {side.role}", step, STEPS)
        taken = write_side(work, side, max_length, options, room, _stage_of(progress, step))
        room = None if room is None else max(0, room - taken)
        if options.npu is not None:
            folder = work / side.role / "npu"
            side.static["float"] = write_static(_checkpoint(side), folder, options.npu.shapes(max_length))
        if options.ort:  # told before anything is measured
            refuse_too_large([work / side.graph])
    progress("compare vocabularies", 3, STEPS)
    vocab_map = _write_vocab_map(work, drafter, target, options.pairs)
    prompt, template = compile_template(target.checkpoint.directory, target.tokenizer)
    if template is not None:
        (work / CHAT_TEMPLATE).write_text(template.source, encoding="utf-8")

    prompts = [
        (target.tokenizer.encode_prompt(prompt.prefix, text, prompt.suffix)[: max_length // 2], text)
        for text in PROMPTS
    ]
    pairs = [(ids, _visible(drafter, target, ids)) for ids, _ in prompts]
    parity, adopted = {}, {}
    for step, side in enumerate(sides, 4):
        rows = [r for r in (ids if side is target else draft_ids for ids, draft_ids in pairs) if r][:3]
        if isinstance(side.checkpoint, OptimumDirectory):
            progress(f"check the adopted {side.role}", step, STEPS)
            adopted[side.role] = check_adopted(side.checkpoint.name, side.shipped_model(work), rows)
            continue
        progress(f"compare the {side.role} with torch", step, STEPS)
        name = options.quantization_of(side.role).name
        parity[side.role] = compare_side(work, side, rows, name)
        if options.npu is not None:
            parity[side.role] |= finish_static(work, side, options.npu, rows)
    progress("measure acceptance before quantisation", 6, STEPS)
    start = drafter.start
    # One pair of models at a time: two would be two times the memory.
    first = (
        side.reference_model(work) if side.whole_reference else side.shipped_model(work) for side in sides
    )
    before = _acceptance(next(first), Drafter(next(first), start), vocab_map, pairs)
    progress("measure acceptance after quantisation", 7, STEPS)
    shipped = Pair(
        target.shipped_model(work), Drafter(drafter.shipped_model(work), start), NgramCache(vocab_map)
    )
    after = _acceptance(shipped.target, shipped.drafter, vocab_map, pairs)
    refuse_collapse(before, after, options.name)
    costs = replace(measure_costs(shipped, *pairs[0]), acceptance=after.of_tested)
    shutil.rmtree(work / "fp32", ignore_errors=True)  # two adopted graphs need none
    progress("write the manifest", 8, STEPS)
    report = Report(work, 0, parity, before, after, costs, adopted, limits(sides), drafter.train_parity)
    ort = write_ort(work, {side.role: side.graph for side in sides}) if options.ort else None
    write_manifest(work, sides, {**asdict(prompt), **template_entry(template)}, options, report, ort)
    open_bundle(work)  # what a user will read must read
    progress("done", STEPS, STEPS)
    return replace(report, bytes=sum(f.stat().st_size for f in work.rglob("*") if f.is_file()))


def _stage_of(progress: Progress, step: int) -> Callable[[str], None]:
    """Say what begins within a step."""
    return lambda what: progress(what, step, STEPS)


def _acceptance(
    target: Model, drafter: Drafter, vocab_map: VocabMap, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Acceptance:
    return measure_acceptance(target, drafter, lambda: NgramCache(vocab_map), pairs)


def _checkpoint(side: ModelExport) -> Checkpoint:
    """What static graphs are made from."""
    if isinstance(side.checkpoint, OptimumDirectory):
        raise ExportError(
            f"{side.checkpoint.name} is a graph that is adopted as it is, and "
            "--npu makes graphs of a checkpoint",
            "give the checkpoint, or leave --npu out",
        )
    return side.checkpoint


def _write_vocab_map(work: Path, drafter: ModelExport, target: ModelExport, pairs: Sequence[str]) -> VocabMap:
    named = read_pairs(drafter.tokenizer, target.tokenizer, pairs)
    vocab_map = build_vocab_map(
        drafter.tokenizer,
        target.tokenizer,
        draft_size=drafter.checkpoint.shape.vocab_size,
        target_size=target.checkpoint.shape.vocab_size,
        roles=_roles(drafter, target).overruled_by(named),
    )
    save_file(vocab_map.tensors(), work / VOCAB_MAP, metadata=vocab_map.metadata())
    (work / VOCAB_MAP).chmod(0o644)  # safetensors lets its owner alone read it
    return vocab_map


def _roles(drafter: ModelExport, target: ModelExport) -> Roles:
    """End pairs with end as the configurations say; by well-known names where they are silent."""
    ends = drafter.checkpoint.shape.eos_ids, target.checkpoint.shape.eos_ids
    guessed = guess_roles(drafter.tokenizer, target.tokenizer)
    if not all(ends):
        return guessed
    first = (ends[0][0], ends[1][0])
    rest = [pair for pair in guessed.pairs if pair[0] not in ends[0] and pair[1] not in ends[1]]
    return Roles((first, *rest))


def _visible(drafter: ModelExport, target: ModelExport, ids: list[int]) -> list[int]:
    return drafter.tokenizer.encode(target.tokenizer.text_of(ids).decode("utf-8", "replace"))
