"""`omnidraft export`: two checkpoints in, a checked bundle out."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands import options


def export(
    target: Annotated[str, typer.Argument(help="The model to speed up: a Hugging Face directory or hub id.")],
    drafter: Annotated[str, typer.Option("--drafter", "-d", help="The small model, likewise.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle directory to make.")],
    quant: Annotated[str, typer.Option(help="Weights of the target: fp32, int8 or int4.")] = "int4",
    drafter_quant: Annotated[
        str | None, typer.Option(help="Weights of the drafter (default: --quant).")
    ] = None,
    block: Annotated[int, typer.Option(help="Weights that share a scale: 32 (closer) or 128 (faster).")] = 32,
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a bundle that is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Turn a target and a drafter into a bundle for onnxruntime, and check it.

    The graphs are compared with torch and the drafter's acceptance is measured before and after
    quantisation; an export whose drafter broke fails and leaves nothing behind.
    """
    options.need_export_packages()
    from omnidraft.commands import view
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options

    chosen = Options(
        options.quantization(quant, block),
        None if drafter_quant is None else options.quantization(drafter_quant, block),
        max_length,
        overwrite,
        pairs=tuple(pair or ()),
        check_memory=None if check_memory is None else int(1e9 * check_memory),
    )
    with view.progress_bar("export") as bar:
        report = export_bundle(target, drafter, out, chosen, bar.stage)
    if as_json:
        return options.print_json({**asdict(report), "path": str(report.path)})
    view.out.print(f"{report.path}: {view.size(report.bytes)}")
    for role, each in report.parity.items():
        for name, parity in each.items():
            view.out.print(
                f"  {role} {name} against torch: max difference {parity.max_difference:.2g}, "
                f"greedy agreement {parity.greedy_agreement:.1%} of {parity.positions} positions"
            )
    view.out.print(
        f"  acceptance of the drafter: {report.before.of_drafted:.1%} before quantisation "
        f"({report.before.tokens_per_target_pass:.2f} tokens per target pass), "
        f"{report.after.of_drafted:.1%} as exported ({report.after.tokens_per_target_pass:.2f})"
    )
    for sentence in report.limits:
        view.out.print(f"  not checked wholly: {sentence}")
    peak = "" if report.peak_bytes is None else f", {view.size(report.peak_bytes)} of memory at the peak"
    view.out.print(f"  {report.seconds:.0f} s{peak}")
