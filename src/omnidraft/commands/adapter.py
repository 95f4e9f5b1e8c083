"""`omnidraft adapter`: convert adapters from peft, inspect them, fold them into their checkpoint."""

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.options import BundlePath, Json, print_json
from omnidraft.errors import AdapterError, SettingError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import SUFFIX, metadata_of, read_adapter, write_adapter
from omnidraft.runtime.models.adapter_fit import Role, fit
from omnidraft.runtime.vocab.vocab_map import load_vocab_map

app = typer.Typer(
    help="LoRA adapters: convert from peft, inspect, or fold into a checkpoint.\n\n"
    "`omnidraft generate BUNDLE PROMPT --adapter FILE` uses one.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

OverwriteAdapter = Annotated[bool, typer.Option("--overwrite", help="Replace an existing adapter.")]
RoleOption = Annotated[str, typer.Option("--role", help="The adapter's model: drafter or target.")]


def refuse_existing_adapter(out: Path, overwrite: bool) -> None:
    """Refuse to replace files, before any work is done.

    Raises:
        SettingError: one of the adapter's two files exists and `overwrite` is off, or it is not an adapter.
    """
    for file in (out, out.with_suffix(SUFFIX)):
        if file.exists() and not overwrite:
            raise SettingError(f"{file} exists already", "choose another place or add --overwrite")
    try:
        if out.is_file() and out.stat().st_size:
            read_adapter(out)
    except AdapterError as error:
        if error.fault == "not_an_adapter":
            raise SettingError(
                f"{out} is not an adapter, so it is not overwritten", "choose another place"
            ) from None


@app.command("convert")
def convert_command(
    peft: Annotated[Path, typer.Argument(metavar="PEFT_DIR", help="Directory written by peft.")],
    bundle: BundlePath,
    out: Annotated[Path, typer.Option("--out", "-o", help="The adapter to write, FILE.safetensors.")],
    role: RoleOption = "drafter",
    overwrite: OverwriteAdapter = False,
    as_json: Json = False,
) -> None:
    """Convert an adapter that peft trained on the checkpoint that the bundle was exported from.

    FILE.onnx_adapter, written beside it, holds the same for onnxruntime in Java and C.
    """
    if role not in get_args(Role):
        raise SettingError(f'--role "{role}" is unknown', f"use {' or '.join(get_args(Role))}")
    refuse_existing_adapter(out, overwrite)
    opened = open_bundle(bundle)
    entry = getattr(opened, role)
    if entry.lora is None or entry.fingerprint is None:
        raise AdapterError(
            f"the {role} of {bundle} takes no adapters",
            f"export it again {'without --no-lora' if role == 'drafter' else 'with --lora-target'}",
            fault="no_sites",
        )
    from omnidraft.checkpoints.peft_adapter import convert

    vocab_map = load_vocab_map(opened.file(opened.vocab_map))
    tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
    created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    adapter, base = convert(peft, entry.lora, entry.fingerprint, tokenizers, created)
    if base and Path(base).name != Path(entry.source).name:
        sys.stderr.write(
            f"omnidraft: peft says that it was trained on {base} and the bundle's {role} is {entry.source}; "
            "an adapter of other weights makes drafts worse\n"
        )
    paths = write_adapter(out, adapter)
    if as_json:
        return print_json({**summary(adapter), "role": role, "files": [str(path) for path in paths]})
    print(f"{out}: {_line(adapter)}, for the {role} of {bundle}")


@app.command("merge")
def merge_command(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="What it was trained on: a directory or a hub id."),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An adapter.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The checkpoint to write, a new directory.")],
    as_json: Json = False,
) -> None:
    """Fold an adapter into its checkpoint, which can then be exported as a drafter.

    An adapter costs time at every step, the more the smaller the drafter. A folded one costs no time and is
    quantised with the weights, but cannot be exchanged any more.
    """
    need_export_packages()
    from omnidraft.training.merge import merge

    adapter = read_adapter(file)
    merge(checkpoint, adapter, out)
    if as_json:
        return print_json({**summary(adapter), "checkpoint": checkpoint, "out": str(out)})
    print(f"{out}: {checkpoint} with {_line(adapter)} folded in")
    print(f"  `omnidraft export TARGET --drafter {out} -o BUNDLE` makes a bundle of it")


@app.command("inspect")
def inspect_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An adapter.")],
    bundle: Annotated[
        Path | None, typer.Option("--bundle", "-b", help="Also check that it fits this bundle.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify an adapter and show what is in it; with --bundle, also check that it fits the bundle."""
    adapter = read_adapter(file)
    fits: dict[str, str] = {}
    if bundle is not None:
        opened = open_bundle(bundle)
        role, _ = fit(adapter, opened, load_vocab_map(opened.file(opened.vocab_map)))
        fits = {"role": role, "bundle": str(bundle)}
    if as_json:
        return print_json({**summary(adapter), **fits})
    print(f"{file}: {_line(adapter)}")
    print(f"  made {adapter.created} on the weights {adapter.base[:12]}, digest {adapter.digest[:12]}")
    print(f"  tokenizers: drafter {adapter.draft_tokenizer[:12]}, target {adapter.target_tokenizer[:12]}")
    if fits:
        print(f"  fits the {fits['role']} of {fits['bundle']}")


def summary(adapter: Adapter) -> dict[str, Any]:
    """An adapter's metadata and sizes as a JSON object."""
    return {
        **metadata_of(adapter),
        "rank": adapter.rank,
        "targets": metadata_of(adapter)["targets"].split(","),
        "digest": adapter.digest,
        "sites": len(adapter.tensors),
        "parameters": parameters(adapter),
    }


def parameters(adapter: Adapter) -> int:
    """The number of values in all tensors."""
    return sum(int(tensor.size) for tensor in adapter.named.values())


def _line(adapter: Adapter) -> str:
    targets = metadata_of(adapter)["targets"].replace(",", ", ")
    place = f"rank {adapter.rank} at {len(adapter.tensors)} products ({targets})"
    return f"{place}, {parameters(adapter):,} values"
