"""`omnidraft export`: turn two checkpoints into a checked bundle."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.checkpoints.gguf.header import find_gguf, read_header
from omnidraft.checkpoints.gguf.weights import FLOATS, matrix_kinds
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.read_prompts import read_prompts
from omnidraft.commands.terminal.settings_file import SettingsFile
from omnidraft.commands.terminal.stop_signals import tells_when_interrupted
from omnidraft.errors import SettingError, shown
from omnidraft.export.default_drafter import default_drafter
from omnidraft.export.npu.npu_providers import NAMED
from omnidraft.export.quantize.quantization import FORMS, STORED, Quantization, named
from omnidraft.packing.share_drafter import share_drafter, users_of

if TYPE_CHECKING:
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.quantize.parity import Acceptance
    from omnidraft.export.report import Report

AUTO, NONE = "auto", "none"
MOST_GB = 1_000_000
QUANTS = (AUTO, *(form.name for form in FORMS))


@tells_when_interrupted(lambda _: "nothing was written")
def export(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="The model to speed up: a Hugging Face directory or hub id, a GGUF file, or a directory of "
            "Optimum.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle directory to make.")],
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            "-d",
            help="The small model, given the same way (default: the drafter for any target that comes with "
            "the package); none for a bundle that only copies from its text.",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Tokens that the context holds (default: the target's own, at most 8192; fewer where its "
            "keys and values would take more than 512 MiB)."
        ),
    ] = None,
    quant: Annotated[
        str,
        typer.Option(
            help=f"How the target's weights are stored: {options.one_of(QUANTS)} "
            "(docs/quantization.md). auto: the codes of a GGUF file as they are, else the "
            "smallest form whose perplexity is within 3 % of the source's."
        ),
    ] = AUTO,
    drafter_quant: Annotated[
        str | None,
        typer.Option(
            help="How the drafter's weights are stored (default: as --quant; with auto "
            "int4, or the codes of a GGUF file)."
        ),
    ] = None,
    train_step: Annotated[
        bool,
        typer.Option(
            "--train-step",
            help="Also write the graph with which the drafter learns on the device, without torch.",
        ),
    ] = False,
    npu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join((*NAMED, "all")),
            help="Also write static graphs for accelerators; all leaves out nnapi.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing bundle.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML file with further settings: pair, check_memory, share_drafter, calibration, "
            " lora_drafter, lora_target, train_rank, half_kv; with --npu also "
            "kv_length, prefill_chunk, npu_lora_rank, num_draft_tokens.",
            readable=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Turn a target and a drafter into a bundle for onnxruntime, and check the bundle.

    The graphs are compared with torch, the target's text is measured beside its source, and the acceptance
    of the drafter before and after quantisation. An export fails if quantisation broke the drafter; a failed
    export leaves nothing behind. The last line says whether the default mode is
    faster than plain decoding on this machine.
    """
    file = SettingsFile(config)
    pairs, share = file.texts("pair"), file.switch("share_drafter", False)
    memory, calibration = file.number("check_memory", None), file.path("calibration")
    lora_drafter, lora_target = file.switch("lora_drafter", True), file.switch("lora_target", False)
    half_kv = file.switch("half_kv", False)
    train_rank, npu_rank = file.integer("train_rank", None), file.integer("npu_lora_rank", None)
    lengths = file.integer("kv_length", None), file.integer("prefill_chunk", None)
    static = *lengths, file.integer("num_draft_tokens", None)
    file.refuse_others()
    if memory is not None and not 0 < memory < MOST_GB:
        raise SettingError(
            f"check_memory {memory} is outside 0 to {MOST_GB:,} GB", "leave it out for the free memory"
        )
    if drafter == NONE and (share or drafter_quant is not None):
        option = "share_drafter" if share else f"--drafter-quant {drafter_quant}"
        raise SettingError(f"{option} is for a drafter, and this bundle gets none", "give a drafter")
    drafter = str(default_drafter()) if drafter is None else drafter
    small = None if drafter == NONE else drafter
    need_export_packages(*(name for name in (target, small) if name is not None))
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options

    chosen = STORED if quant == AUTO and codes_of(target) else quant
    weights = _weights(small, quant, chosen, drafter_quant)
    texts = None if calibration is None else tuple(read_prompts(calibration))
    settings = Options(
        weights[0],
        weights[1],
        max_length,
        overwrite,
        pairs=pairs,
        check_memory=None if memory is None else int(1e9 * memory),
        npu=static_options(npu or [], static, texts, npu_rank),
        calibration=texts,
        lora_drafter=lora_drafter,
        lora_target=lora_target,
        train_rank=_train_rank(train_step, train_rank),
        search=chosen == AUTO,
        half_kv=half_kv,
    )
    with output.progress_bar("export", quiet=as_json) as bar:
        report = export_bundle(target, small, out, settings, bar.stage)
    shared = share_drafter(out) if share and small is not None else None
    if as_json:
        verdict, paths = asdict(report.verdict), {"path": str(report.path)}
        paths |= {} if shared is None else {"drafter_path": str(shared)}
        return options.print_json({"verdict": verdict, **asdict(report), **paths})
    if shared is not None:
        output.say(f"the drafter is in {shared}, used by {', '.join(users_of(shared).bundles)}")
    for line in _lines(report):
        output.say(line)


def _weights(
    drafter: str | None, quant: str, chosen: str, drafter_quant: str | None
) -> tuple[Quantization, Quantization]:
    """How the weights of the target and of the drafter are stored."""
    usual = (STORED if drafter and codes_of(drafter) else "int4") if quant == AUTO else quant
    return named("int4" if chosen == AUTO else chosen), named(
        usual if drafter_quant is None else drafter_quant
    )


def codes_of(model: str) -> bool:
    """Whether a model is a GGUF file with codes, which are taken as they are.

    Raises:
        CheckpointError: the file is not sound.
    """
    file = find_gguf(model)
    return file is not None and not set(matrix_kinds(read_header(file, model))) <= set(FLOATS)


def _lines(report: "Report") -> Iterator[str]:
    yield f"{report.path}: {output.size(report.bytes)}"
    yield f"  {report.context}"
    if report.vocabulary:
        yield f"  {report.vocabulary}"
    for role, graphs in report.parity.items():
        for name, parity in graphs.items():
            yield (
                f"  {role} as {name} beside torch: the same next token at {parity.greedy_agreement:.1%} of "
                f"{parity.positions} places; a token's score differs by up to {parity.max_difference:.2g}"
            )
    for name, step in report.train.items():
        yield (
            f"  {name} beside torch: after a step of learning the loss differs by {step.loss:.1g}, the "
            f"gradient by {step.gradient:.1g}, the learned values by {step.tensors:.1g} of their size"
        )
    for role, adopted in report.adopted.items():
        yield (
            f"  {role} adopted as it is: the scores of a token differ by up to {adopted.rows:.2g} with other "
            f"tokens after it, by {adopted.rewind:.2g} after tokens that were taken back, and by "
            f"{adopted.block:.2g} where it is scored alone ({adopted.positions} places)"
        )
    if report.before is None or report.after is None:
        yield "  no drafter: the default mode copies from its text"
    else:
        yield _acceptance(report.before, report.after)
    if report.trials:
        tried = ", ".join(f"{each.form} {100 * each.loss:+.1f} %" for each in report.trials)
        yield f"  perplexity of the forms that were tried: {tried}"
    if report.quality is not None:
        yield f"  text of the target as {report.quantization}: {report.quality.whole.sentence}"
    if report.no_system is not None:
        yield f"  no system prompt: {shown(report.no_system)}"
    for limit in report.limits:
        yield f"  not checked wholly: {limit}"
    peak = "" if report.peak_bytes is None else f", {output.size(report.peak_bytes)} of memory at the peak"
    yield f"  {report.seconds:.0f} s{peak}"
    for warning in report.warnings:
        yield f"warning: {warning}"
    yield f"{'' if report.verdict.good else 'warning: '}{report.verdict}"


def _acceptance(before: "Acceptance", after: "Acceptance") -> str:
    from omnidraft.export.quantize.parity import DRAFTED

    return (
        f"  drafter, {DRAFTED} draft tokens at a time: {after.of_drafted:.1%} accepted, so a pass of the "
        f"target gives {after.tokens_per_target_pass:.2f} tokens (with float32 weights "
        f"{before.of_drafted:.1%}, {before.tokens_per_target_pass:.2f} tokens)"
    )


def _train_rank(train_step: bool, rank: int | None) -> int | None:
    from omnidraft.export.options import USUAL_RANK

    if not train_step and rank is not None:
        raise SettingError(f"train_rank {rank} is for --train-step", "add that, or leave train_rank out")
    return USUAL_RANK if train_step and rank is None else rank


def static_options(
    names: list[str],
    lengths: tuple[int | None, int | None, int | None],
    calibration: tuple[str, ...] | None,
    lora_rank: int | None,
) -> "NpuOptions | None":
    """Options of the static graphs; None where no accelerator is named.

    Args:
        lengths: kv_length, prefill_chunk and num_draft_tokens, in tokens.
        calibration: texts; built-in prompts when None.
        lora_rank: that static float graphs take.

    Raises:
        SettingError: an option of static graphs without --npu, or an unknown accelerator.
    """
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.npu.npu_providers import accelerators

    providers = accelerators(names)
    if not providers:
        names = ["kv_length", "prefill_chunk", "num_draft_tokens", "npu_lora_rank"]
        for option, value in zip(names, (*lengths, lora_rank), strict=True):
            if value is not None:
                raise SettingError(f"{option} {value} is for --npu", f"add that, or leave {option} out")
        return None
    kv_length, chunk, drafted = lengths
    usual = NpuOptions(providers, kv_length, chunk, lora_rank=lora_rank)
    npu = usual if drafted is None else replace(usual, drafted=drafted)
    return npu if calibration is None else replace(npu, calibration=calibration)
