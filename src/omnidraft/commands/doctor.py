"""`omnidraft doctor`: check this machine, and what a bundle does on it, with remedies."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.doctor.check import Check, overall
from omnidraft.errors import counted


def doctor(
    bundle: Annotated[
        Path | None,
        typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`; optional."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check this machine, and a bundle on it; the verdict comes first.

    The exit status is 1 if a check fails.
    """
    from omnidraft.doctor.examine import examine

    with output.progress_bar("doctor", quiet=as_json) as bar:
        checks = examine(bundle, options.signer(), bar.stage)
    counts = Counter(check.verdict for check in checks)
    if as_json:
        found = [check.as_json() for check in checks]
        options.print_json({"verdict": overall(checks), "failed": counts["fail"], "checks": found})
    else:
        sys.stdout.write(f"{overall(checks)}\n\n")
        sys.stdout.write("".join(f"{line}\n" for line in _lines(checks)))
        sys.stdout.write(
            f"{counts['ok']} ok, {counted(counts['warn'], 'warning')}, {counted(counts['fail'], 'failure')}\n"
        )
    if counts["fail"]:
        raise typer.Exit(1)


def _lines(checks: Sequence[Check]) -> list[str]:
    lines = []
    for check in checks:
        lines.append(f"{check.verdict:4}  {check.name}: {check.message}")
        if check.remedy:
            lines.append(f"      -> {check.remedy}")
    return lines
