"""`omnidraft pack` and `unpack`: one file with what a device needs of a bundle, and back."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.stop_signals import tells_when_interrupted
from omnidraft.errors import counted
from omnidraft.packing import write_archive
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.write_archive import Packed
from omnidraft.runtime.archive import unpack as unpacking
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.bundle.hashes import file_sha256
from omnidraft.runtime.bundle.memory import Need
from omnidraft.runtime.parts.drafter_address import shared_place
from omnidraft.runtime.parts.pack_index import DEVICES, ONLY, WITH, WITHOUT


@tells_when_interrupted(lambda _: "nothing was written")
def pack(
    bundle: options.BundlePath,
    device: Annotated[
        str, typer.Option("--for", metavar="|".join(DEVICES), help="The device that the archive is for.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The archive to write, such as app.zip.")],
    drafter: Annotated[
        str,
        typer.Option(
            metavar=f"{WITH}|{WITHOUT}|{ONLY}",
            help="Whether the archive holds the drafter. Bundles that share one are packed without it, and "
            "it is packed once.",
        ),
    ] = WITH,
    learning: Annotated[
        bool,
        typer.Option(
            "--learning/--no-learning", help="Hold the training step, with which the drafter learns."
        ),
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Pack the parts of a bundle that a device needs into one file, and print its sizes.

    The archive is a ZIP file without compression, and each file in it can be mapped where it lies. Manifest
    and signature stay as they are. The same bundle gives the same bytes.
    """
    settings = PackOptions(device, drafter, learning)
    with output.progress_bar("pack", quiet=as_json) as bar:
        packed = write_archive.pack(bundle, out, settings, public_key=options.signer(), progress=bar.step)
    if as_json:
        return options.print_json(packed_json(packed))
    for line in packed_lines(packed, bundle):
        output.say(line)


def packed_lines(packed: Packed, bundle: Path) -> list[str]:
    """What was written, a line each."""
    what = {WITH: "", WITHOUT: ", without the drafter", ONLY: ", the drafter alone"}[packed.index.drafter]
    lines = [
        f"{packed.path}: {counted(packed.files, 'file')} of {bundle.name} for {packed.index.device}{what}",
        f"  download {output.size(packed.download)}, on disk {output.size(packed.on_disk)}",
        f"  {packed.download} bytes, SHA-256 {file_sha256(packed.path)}",
        f"  memory {_memory(packed)}",
    ]
    if packed.drafter is not None:
        lines.append(f"  bundles with the same drafter share it on the device, as drafters/{packed.drafter}")
    if packed.index.left_out:
        lines.append(f"  left out: {', '.join(packed.index.left_out)}")
    if packed.elsewhere:
        other = "the drafter" if packed.index.drafter == WITHOUT else "the target and the vocabulary map"
        lines.append(f"  not in this archive, {other}: {', '.join(packed.elsewhere)}")
    return lines


def _memory(packed: Packed) -> str:
    """The memory that what the archive holds needs, in words."""
    need, plain = packed.memory, packed.without_drafter
    pair, alone = output.size(need.total), output.size(plain.total)
    at_peak = f"at the peak of a generation in Python, {output.size(need.base)} of it Python and onnxruntime"
    if packed.index.drafter == ONLY:
        return f"{output.size(need.total - plain.total)} more than the {alone} of a generation without it"
    if packed.index.drafter == WITHOUT:
        return f"{alone} {at_peak}; {pair} with the drafter"
    return f"{pair} {at_peak}"


def packed_json(packed: Packed) -> dict[str, Any]:
    """What was written, as a JSON object; sizes in bytes."""
    return {
        "archive": str(packed.path),
        "device": packed.index.device,
        "drafter": packed.index.drafter,
        "drafter_address": packed.drafter,
        "files": packed.files,
        "left_out": list(packed.index.left_out),
        "elsewhere": list(packed.elsewhere),
        "download": packed.download,
        "sha256": file_sha256(packed.path),
        "on_disk": packed.on_disk,
        "memory": _need_json(packed.memory),
        "memory_without_drafter": _need_json(packed.without_drafter),
    }


def _need_json(need: Need) -> dict[str, int]:
    return {**asdict(need), "total": need.total}


@tells_when_interrupted(lambda _: "nothing was written")
def unpack(
    archive: Annotated[
        Path, typer.Argument(metavar="FILE", help="An archive of `omnidraft pack`.", readable=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The bundle directory to make. For only a drafter, the directory of the bundles.",
        ),
    ],
) -> None:
    """Unpack an archive of `omnidraft pack`, and check every hash.

    An archive of only a drafter goes to drafters/ADDRESS below --out, where all bundles in --out find it.
    """
    opened = open_archive(archive, options.signer())
    with output.progress_bar("unpack") as bar:
        place = unpacking.unpack(opened, out, progress=bar.step)
    shared = shared_place(out, opened.address) if opened.index.drafter == WITHOUT else None
    lacking = None if shared is None or shared.is_dir() else shared
    what = "the drafter" if opened.index.drafter == ONLY else "a bundle"
    output.say(
        f"{place}: {what} for {opened.index.device}, {counted(len(opened.files), 'file')}, all hashes match"
    )
    if lacking is not None:
        output.say(
            f"its drafter is not here yet: unpack the archive of the drafter with -o {lacking.parents[1]}"
        )
