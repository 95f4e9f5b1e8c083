"""`omnidraft export`: two checkpoints in, a checked bundle out."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import SettingError
from omnidraft.export.npu.npu_providers import NAMED
from omnidraft.export.quantize.quantization import BLOCKS, HEADS, METHODS, WEIGHTS

if TYPE_CHECKING:
    from omnidraft.export.npu.npu import NpuOptions


@tells_when_interrupted(lambda _: "nothing was written")
def export(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="The model to speed up: a Hugging Face directory or hub id, or a directory of Optimum's.",
        ),
    ],
    drafter: Annotated[str, typer.Option("--drafter", "-d", help="The small model, likewise.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle directory to make.")],
    quant: Annotated[
        str,
        typer.Option(
            help=f"How the target's weights are stored: {options.one_of(WEIGHTS)}, or a longer name such as "
            "int4-b128-gptq (docs/quantization.md)."
        ),
    ] = "int4",
    drafter_quant: Annotated[
        str | None, typer.Option(help="How the drafter's are stored, likewise (default: as --quant).")
    ] = None,
    block: Annotated[
        int,
        typer.Option(
            help=f"Weights that share a scale: {options.one_of(map(str, BLOCKS))}; fewer are closer, "
            "more are faster."
        ),
    ] = 32,
    embedding: Annotated[
        str, typer.Option(help=f"Embedding tables: {options.one_of(WEIGHTS)}; smaller at the same speed.")
    ] = "fp32",
    lm_head: Annotated[
        str,
        typer.Option(
            "--lm-head",
            help=f"Of int4 weights the LM head: {options.one_of(HEADS)}; int8 is closer and larger.",
        ),
    ] = "same",
    quant_method: Annotated[
        str, typer.Option(help=f"How int4 weights are found: {options.one_of(METHODS)}.")
    ] = "round",
    calibration: Annotated[
        Path | None,
        typer.Option(help="For gptq and qnn: a file with a text on each line (default: built-in prompts)."),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Tokens that the context holds (default: the models' own, at most 2048)."),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Control tokens that mean the same, as DRAFTER=TARGET: '<think>=<think>'."),
    ] = None,
    check_memory: Annotated[
        float | None,
        typer.Option(help="GB of float32 weights that the checks may hold (default: what is free)."),
    ] = None,
    npu: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join((*NAMED, "all")),
            help="Static graphs for accelerators, too; nnapi only by its name.",
        ),
    ] = None,
    kv_length: Annotated[
        int | None,
        typer.Option(help="With --npu: tokens that a static graph attends to (default: the context)."),
    ] = None,
    num_draft_tokens: Annotated[
        int, typer.Option(help="With --npu: draft tokens that one static verification takes.")
    ] = 4,
    prefill_chunk: Annotated[
        int | None, typer.Option(help="With --npu: tokens of a prompt in one static pass (default: 64).")
    ] = None,
    npu_lora_rank: Annotated[
        int | None,
        typer.Option(
            help="With --npu: LoRA rank that static float graphs take (default: no adapters there)."
        ),
    ] = None,
    lora_target: Annotated[
        bool, typer.Option("--lora-target", help="Let LoRA adapters enter the target, too.")
    ] = False,
    no_lora: Annotated[bool, typer.Option("--no-lora", help="Let none enter the drafter.")] = False,
    head: Annotated[
        bool,
        typer.Option(
            "--head/--no-head",
            help="Give the drafter an adaptive head, which training can make end drafts early.",
        ),
    ] = True,
    head_blocks: Annotated[
        int | None, typer.Option(help="Of the head: residual blocks, 1 to 3 (default: 1).")
    ] = None,
    train_step: Annotated[
        bool,
        typer.Option(
            "--train-step", help="Also write what the drafter learns by on the device, without torch."
        ),
    ] = False,
    train_rank: Annotated[
        int | None, typer.Option(help="With --train-step: LoRA rank of what is learned (default: 16).")
    ] = None,
    ort: Annotated[
        bool, typer.Option("--ort", help="Also write .ort files and the operators that they need.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a bundle that is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Turn a target and a drafter into a bundle for onnxruntime, and check it.

    The graphs are compared with torch and the drafter's acceptance is measured before and after
    quantisation; an export whose drafter broke fails and leaves nothing behind.
    """
    options.need_export_packages(target, drafter)
    from omnidraft.commands.terminal import output
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import Choices, with_choices

    names = [quant, quant if drafter_quant is None else drafter_quant]
    of_target, of_drafter = with_choices(names, Choices(block, embedding, lm_head, quant_method))
    texts = None if calibration is None else tuple(options.lines(calibration))
    chosen = Options(
        of_target,
        of_drafter,
        max_length,
        overwrite,
        pairs=tuple(pair or ()),
        check_memory=None if check_memory is None else int(1e9 * check_memory),
        npu=_npu(npu or [], (kv_length, prefill_chunk, num_draft_tokens), texts, npu_lora_rank),
        calibration=texts,
        lora_drafter=not no_lora,
        lora_target=lora_target,
        head_blocks=_head_blocks(head, head_blocks),
        train_rank=_train_rank(train_step, train_rank),
        ort=ort,
    )
    with output.progress_bar("export", quiet=as_json) as bar:
        report = export_bundle(target, drafter, out, chosen, bar.stage)
    if as_json:
        return options.print_json({**asdict(report), "path": str(report.path)})
    output.say(f"{report.path}: {output.size(report.bytes)}")
    for role, each in report.parity.items():
        for name, parity in each.items():
            output.say(
                f"  {role} {name} against torch: max difference {parity.max_difference:.2g}, "
                f"greedy agreement {parity.greedy_agreement:.1%} of {parity.positions} positions"
            )
    for name, step in report.train.items():
        output.say(
            f"  {name} against torch: after a step the loss differs by {step.loss:.1g}, the gradient by "
            f"{step.gradient:.1g}, what was learned by {step.tensors:.1g} of its size"
        )
    for role, found in report.adopted.items():
        output.say(
            f"  {role} adopted as it is, not quantised here: a row changes by {found.rows:.2g} with "
            f"what follows it, by {found.rewind:.2g} with what was forgotten, by {found.block:.2g} "
            f"outside a block ({found.positions} positions)"
        )
    output.say(
        f"  acceptance of the drafter: {report.before.of_drafted:.1%} before quantisation "
        f"({report.before.tokens_per_target_pass:.2f} tokens per target pass), "
        f"{report.after.of_drafted:.1%} as exported ({report.after.tokens_per_target_pass:.2f})"
    )
    for sentence in report.limits:
        output.out.print(f"  not checked wholly: {sentence}")
    peak = "" if report.peak_bytes is None else f", {output.size(report.peak_bytes)} of memory at the peak"
    output.out.print(f"  {report.seconds:.0f} s{peak}")


def _head_blocks(head: bool, blocks: int | None) -> int | None:
    if not head and blocks is not None:
        raise SettingError(f"--head-blocks {blocks} and --no-head contradict each other", "give one of them")
    return 1 if head and blocks is None else blocks


def _train_rank(wanted: bool, rank: int | None) -> int | None:
    from omnidraft.export.options import USUAL_RANK

    if not wanted and rank is not None:
        raise SettingError(f"--train-rank {rank} is for --train-step", "add that, or leave --train-rank out")
    return USUAL_RANK if wanted and rank is None else rank


def _npu(
    names: list[str],
    lengths: tuple[int | None, int | None, int],
    calibration: tuple[str, ...] | None,
    lora_rank: int | None,
) -> "NpuOptions | None":
    """What is to be exported for accelerators."""
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.npu.npu_providers import accelerators

    wanted = accelerators(names)
    if not wanted:
        given = {"--kv-length": lengths[0], "--prefill-chunk": lengths[1], "--npu-lora-rank": lora_rank}
        for option, value in given.items():
            if value is not None:
                raise SettingError(f"{option} {value} is for --npu", f"add that, or leave {option} out")
        return None
    found = NpuOptions(wanted, *lengths, lora_rank=lora_rank)
    return found if calibration is None else replace(found, calibration=calibration)
