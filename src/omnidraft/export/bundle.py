"""Checkpoint pair in, bundle out: the whole export, checked before it takes its name."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from safetensors.numpy import save_file

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.compile_template import compile_template
from omnidraft.checkpoints.refusals import weight_bytes
from omnidraft.checkpoints.workplace import refuse_existing, take_name, workplace
from omnidraft.errors import ExportError
from omnidraft.export.adopt.adopt import Adoption, check_adopted
from omnidraft.export.adopt.optimum_directory import OptimumDirectory
from omnidraft.export.build_vocab_map import (
    Roles,
    build_vocab_map,
    byte_vocabulary,
    check_width,
    guess_roles,
    read_pairs,
)
from omnidraft.export.context_length import ContextLengths, context_lengths
from omnidraft.export.export_memory import peak_bytes, room_for_weights
from omnidraft.export.manifest import CHAT_TEMPLATE, VOCAB_MAP, template_entry, write_manifest
from omnidraft.export.measure_pair import (
    Models,
    PromptIds,
    acceptance_before,
    compare_model,
    default_mode,
    limits,
    measure_shipped,
    measure_target,
    prompt_ids,
)
from omnidraft.export.measure_quality import quality_pieces, quality_warnings
from omnidraft.export.model_export import ModelExport, check_model, read_model
from omnidraft.export.npu.npu import write_static
from omnidraft.export.npu.static_weights import refuse_static
from omnidraft.export.npu_checks import finish_static
from omnidraft.export.options import DEFAULTS, Options
from omnidraft.export.quantize.parity import Parity
from omnidraft.export.report import Report
from omnidraft.export.write_model import WriteJob, write_model
from omnidraft.export.write_target import WrittenTarget, write_target
from omnidraft.pair_verdict import CHANCE, chance_verdict, kept_codes, vocabulary_verdict
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.vocab.vocab_map import VocabMap

Progress = Callable[[str, int, int], None]  # (the step, steps done, all steps)

STEPS = 9


def export_bundle(
    target: str,
    drafter: str | None,
    out: Path,
    options: Options = DEFAULTS,
    progress: Progress = lambda *_: None,
) -> Report:
    """Export a target and a drafter into a bundle directory.

    Args:
        target, drafter: Hugging Face directories or hub ids, GGUF files, or directories of Optimum.
            Without a drafter (None) the bundle can copy from its context, and nothing else.
        out: the bundle to make; must not exist unless `options.overwrite`.

    Raises:
        CheckpointError, TokenizerError, VocabMapError: an input cannot be exported.
        ExportError: the bundle would not be usable, or the disk is full.
    """
    started = time.perf_counter()
    refuse_existing(out, options.overwrite)
    progress("read checkpoints", 0, STEPS)
    named = {"target": target} | ({} if drafter is None else {"drafter": drafter})
    for name in named.values():
        check_model(name)
    models: Models = tuple(read_model(role, name) for role, name in named.items())
    small = models[-1] if drafter is not None else None
    if options.npu is not None:
        for model in models:
            refuse_static(_checkpoint(model))
    _refuse_for_drafter(small, options)
    _refuse_half_kv(models[0], options)
    # What needs no work is refused before any work: a wrong name in a pair, a length, a vocabulary.
    if small is not None:
        read_pairs(small.tokenizer, models[0].tokenizer, options.pairs)
    lengths = context_lengths(models[0], small, options.max_length, half_kv=options.half_kv)
    for model in models:
        check_width(model.checkpoint.shape.vocab_size, model.tokenizer, model.role)
    with workplace(out) as work:
        _check_disk(work, models, options)
        report = _fill(work, models, lengths, options, progress)
        refuse_existing(out, options.overwrite)  # something may have been put there meanwhile
        take_name(work, out, replaces=options.overwrite)
    seconds = time.perf_counter() - started
    return replace(report, path=out, seconds=seconds, peak_bytes=peak_bytes())


def _check_disk(work: Path, models: Models, options: Options) -> None:
    """Refuse a disk without room for the weights, before minutes of work.

    This is the least that they take: of a checkpoint that is itself in float32.
    """
    least = sum(
        weight_bytes(model.checkpoint.directory) * options.quantization_of(model.role).bits // 32
        for model in models
        if isinstance(model.checkpoint, Checkpoint)
    )
    free = shutil.disk_usage(work).free
    if free < least:
        raise ExportError(
            f"the disk is full: the weights need at least {least} bytes and {work.parent} has {free} left",
            "make room, or choose another place",
        )


def _fill(
    work: Path, models: Models, lengths: ContextLengths, options: Options, progress: Progress
) -> Report:
    """Write every file of the bundle into `work` and measure it."""
    target, drafter = models[0], models[1] if len(models) > 1 else None
    template = compile_template(target.checkpoint.directory, target.tokenizer)
    target.prompt = template.prompt
    written = _write_models(work, models, lengths, options, progress)
    options, quality = written.options, written.quality
    progress("compare vocabularies", 3, STEPS)
    vocab_map = _write_vocab_map(work, drafter, target, options.pairs)
    together = vocabulary_verdict(target.tokenizer, vocab_map)
    warnings = [] if together.good else [str(together)]
    if options.half_kv and options.npu is not None:
        warnings.append("half_kv changes the graph of the CPU; static graphs keep float32 keys and values")
    warnings += [*_warnings(models), *quality_warnings(target, quality, options.quantization)]
    if template.jinja is not None:
        (work / CHAT_TEMPLATE).write_text(template.jinja.source, encoding="utf-8")
    prompts = prompt_ids(target, drafter, template.prompt, lengths.target // 2)
    parity, adopted = _compare_models(work, models, prompts, options, progress)
    before = after = None
    if drafter is None:
        progress("measure the passes", 7, STEPS)
        costs = measure_target(work, target, vocab_map, prompts[0])
    else:
        progress("measure acceptance before quantisation", 6, STEPS)
        before = acceptance_before(work, models, vocab_map, prompts)
        progress("measure acceptance after quantisation", 7, STEPS)
        after, costs = measure_shipped(work, models, vocab_map, prompts, before, options.name)
        if after.of_drafted < CHANCE:
            warnings.append(str(chance_verdict(after.of_drafted)))
    shutil.rmtree(work / "fp32", ignore_errors=True)  # two adopted graphs have none
    progress("write the manifest", 8, STEPS)
    report = Report(
        path=work,
        bytes=0,
        parity=parity,
        before=before,
        after=after,
        costs=costs,
        adopted=adopted,
        limits=limits(models),
        train=drafter.train_parity if drafter else {},
        warnings=tuple(warnings),
        quantization="" if target.contract is None else target.contract.quantization,
        vocabulary=together.sentence if drafter else "",
        quality=quality,
        no_system=template.no_system,
        no_tools=template.no_tools,
        context=str(lengths),
        trials=written.trials,
    )
    prompt = {**asdict(template.prompt), **template_entry(template.jinja)}
    write_manifest(work, models, prompt, options, report)
    open_bundle(work)  # the reader must accept what was written
    progress("try the default mode", 8, STEPS)
    report = replace(report, texts=default_mode(work))
    write_manifest(work, models, prompt, options, report)
    progress("done", STEPS, STEPS)
    return replace(report, bytes=sum(f.stat().st_size for f in work.rglob("*") if f.is_file()))


def _write_models(
    work: Path, models: Models, lengths: ContextLengths, options: Options, progress: Progress
) -> WrittenTarget:
    """Write the graphs and the tokenizer of each model; the float32 graphs share the room for the checks."""
    room = room_for_weights(work) if options.check_memory is None else options.check_memory
    written = None
    for step, model in enumerate(models, 1):
        progress(f"write the {model.role}", step, STEPS)
        length = lengths.of(model.role)

        def stage(what: str, step: int = step) -> None:
            progress(what, step, STEPS)

        job = WriteJob(work, length, options, room, stage)
        if model.role == "target":
            written = write_target(model, job, quality_pieces(model, length))
            options, reference_bytes = written.options, written.reference_bytes
        else:
            reference_bytes = write_model(model, job)
        room = None if room is None else max(0, room - reference_bytes)
        if options.npu is not None:
            folder, shapes = work / model.role / "npu", options.npu.shapes(length, model.role)
            model.static["float"] = write_static(_checkpoint(model), folder, shapes)
    assert written is not None, "one of the models is the target"
    return written


def _compare_models(
    work: Path, models: Models, prompts: Sequence[PromptIds], options: Options, progress: Progress
) -> tuple[dict[str, dict[str, Parity]], dict[str, Adoption]]:
    """By role: parity of the exported models with torch, and what was measured of the adopted ones."""
    parity, adopted = {}, {}
    for index, model in enumerate(models):
        step, rows = 4 + index, [ids[index][: model.kv.max_length] for ids in prompts if ids[index]][:3]
        if isinstance(model.checkpoint, OptimumDirectory):
            progress(f"check the adopted {model.role}", step, STEPS)
            adopted[model.role] = check_adopted(model.checkpoint.name, model.shipped_model(work), rows)
            continue
        progress(f"compare the {model.role} with torch", step, STEPS)
        assert model.contract is not None, "the model is written"
        parity[model.role] = compare_model(work, model, rows, model.contract.quantization)
        if options.npu is not None:
            parity[model.role] |= finish_static(work, model, options.npu, rows)
    return parity, adopted


def _warnings(models: Models) -> tuple[str, ...]:
    """What a user will not want of codes and tokenizers, a sentence each."""
    sentences: list[str | None] = []
    for model in models:
        if isinstance(model.checkpoint, Checkpoint) and (gguf := model.checkpoint.gguf) is not None:
            quantization = model.contract.quantization if model.contract else ""
            sentences.append(kept_codes(model.role, gguf.kinds, gguf.quantized, quantization))
        if model.not_compiled:
            sentences.append(
                f"the {model.role}'s tokenizer is not compiled, so a runtime needs the package tokenizers: "
                f"{model.not_compiled}"
            )
    return tuple(sentence for sentence in sentences if sentence)


def _refuse_for_drafter(drafter: ModelExport | None, options: Options) -> None:
    """Refuse what needs a drafter where there is none, and a training step of one that keeps GGUF codes."""
    if drafter is None and (options.train_rank is not None or options.pairs):
        option = "pair" if options.pairs else "--train-step"
        raise ExportError(f"{option} is for a drafter, and this bundle gets none", "give a drafter")
    if drafter is None or options.train_rank is None or not options.quantization_of("drafter").stored:
        return
    checkpoint = drafter.checkpoint
    if isinstance(checkpoint, Checkpoint) and checkpoint.gguf is not None and checkpoint.gguf.quantized:
        raise ExportError(
            f"{checkpoint.name} keeps the codes of its file, which --train-step cannot read",
            "add --drafter-quant int8, or leave --train-step out",
        )


def _refuse_half_kv(target: ModelExport, options: Options) -> None:
    """Refuse another type of keys and values for a graph that stays as it is."""
    if options.half_kv and isinstance(target.checkpoint, OptimumDirectory):
        raise ExportError(
            f"{target.checkpoint.name} is a graph, which is adopted with its float32 keys and values",
            "give the checkpoint, or leave half_kv out",
        )


def _checkpoint(model: ModelExport) -> Checkpoint:
    """The checkpoint that static graphs are made from."""
    if isinstance(model.checkpoint, OptimumDirectory):
        raise ExportError(
            f"{model.checkpoint.name} is a graph, which is adopted unchanged, and --npu needs a checkpoint",
            "give the checkpoint, or leave --npu out",
        )
    return model.checkpoint


def _write_vocab_map(
    work: Path, drafter: ModelExport | None, target: ModelExport, pairs: Sequence[str]
) -> VocabMap:
    size, roles = target.checkpoint.shape.vocab_size, Roles()
    if drafter is None:
        vocab_map = build_vocab_map(byte_vocabulary(), target.tokenizer, target_size=size, roles=roles)
    else:
        named = read_pairs(drafter.tokenizer, target.tokenizer, pairs)
        ends = drafter.checkpoint.shape.eos_ids, target.checkpoint.shape.eos_ids
        vocab_map = build_vocab_map(
            drafter.tokenizer,
            target.tokenizer,
            draft_size=drafter.checkpoint.shape.vocab_size,
            target_size=size,
            roles=guess_roles(drafter.tokenizer, target.tokenizer, ends).overruled_by(named),
        )
    save_file(vocab_map.tensors(), work / VOCAB_MAP, metadata=vocab_map.metadata())
    (work / VOCAB_MAP).chmod(0o644)  # safetensors makes the file readable by its owner only
    return vocab_map
