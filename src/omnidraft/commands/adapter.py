"""`omnidraft adapter`: convert adapters from peft, fold them into their checkpoint."""

import sys
from pathlib import Path
from typing import Annotated, get_args

import typer

from omnidraft.commands.inspect.inspect_adapter import line_of
from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.options import BundlePath, signer
from omnidraft.errors import AdapterError, SettingError
from omnidraft.learning.step.ort_learner import utc_now
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.vocab.vocab_map import load_vocab_map

app = typer.Typer(
    help="LoRA adapters: convert from peft, or fold into a checkpoint.\n\n"
    "`omnidraft generate BUNDLE PROMPT --adapter FILE` uses one.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def refuse_existing_adapter(out: Path, *, replace: bool = False) -> None:
    """Refuse to replace a file, before any work is done.

    Args:
        out: the adapter to write.
        replace: it may replace an adapter, and nothing else.

    Raises:
        SettingError: it exists.
    """
    if out.exists() and not replace:
        raise SettingError(f"{out} exists already", "choose another place, or delete it first")
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
    role: Annotated[str, typer.Option(help="The adapter's model: drafter or target.")] = "drafter",
) -> None:
    """Convert an adapter that peft trained on the checkpoint that the bundle was exported from."""
    if role not in get_args(Role):
        raise SettingError(f'--role "{role}" is unknown', f"use {' or '.join(get_args(Role))}")
    refuse_existing_adapter(out)
    opened = open_bundle(bundle, signer())
    entry = opened.drafter if role == "drafter" else opened.target
    if entry.lora is None or entry.fingerprint is None:
        raise AdapterError(
            f"the {role} of {bundle} takes no adapters",
            f"export it again with lora_{role} = true in --config",
            fault="no_sites",
        )
    from omnidraft.checkpoints.peft_adapter import convert

    vocab_map = load_vocab_map(opened.file(opened.vocab_map))
    tokenizers = vocab_map.draft_fingerprint, vocab_map.target_fingerprint
    adapter, base = convert(peft, entry.lora, entry.fingerprint, tokenizers, utc_now())
    if base and Path(base).name != Path(entry.source).name:
        sys.stderr.write(
            f"omnidraft: peft says that it was trained on {base} and the bundle's {role} is {entry.source}; "
            "an adapter of other weights makes drafts worse\n"
        )
    write_adapter(out, adapter)
    print(f"{out}: {line_of(adapter)}, for the {role} of {bundle}")


@app.command("merge")
def merge_command(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="What it was trained on: a directory or a hub id.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An adapter.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The checkpoint to write, a new directory.")],
) -> None:
    """Fold an adapter into its checkpoint, which can then be exported as a drafter.

    An adapter costs time at every step, the more the smaller the drafter. A folded one costs no time and is
    quantised with the weights, but cannot be exchanged any more.
    """
    need_export_packages()
    from omnidraft.training.merge import merge

    adapter = read_adapter(file)
    merge(checkpoint, adapter, out)
    print(f"{out}: {checkpoint} with {line_of(adapter)} folded in")
    print(f"  `omnidraft export TARGET --drafter {out} -o BUNDLE` makes a bundle of it")
