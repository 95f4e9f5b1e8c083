"""`omnidraft unpack`: a bundle's directory of an archive, with every hash checked."""

from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import counted
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack as write
from omnidraft.runtime.parts.drafter_address import shared_place
from omnidraft.runtime.parts.pack_index import ONLY, WITHOUT


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
        place = write(opened, out, progress=bar.step)
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
