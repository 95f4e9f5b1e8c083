"""`omnidraft cache`: merge files of learned n-grams."""

from pathlib import Path
from typing import Annotated

import typer

from omnidraft.errors import counted
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table, write_table
from omnidraft.runtime.vocab.cache_table import merge

app = typer.Typer(
    help="Files of learned n-grams: merge them; `omnidraft inspect` and `wipe` take them, too.\n\n"
    "`omnidraft generate BUNDLE PROMPT --cache FILE` makes one.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _group() -> None:
    """Without it typer would run the only command of the group by the name of the group."""


@app.command("merge")
def merge_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Caches of one pair of models.", readable=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The merged cache; may be one of the files.", readable=False)
    ],
) -> None:
    """Merge several caches: all their n-grams, each with its largest counts.

    The order does not matter, and merging a cache twice changes nothing.
    """
    tables = [read_table(file) for file in files]
    merged = tables[0]
    for table in tables[1:]:
        merged = merge(merged, table)
    write_table(out, merged)
    print(f"{out}: {counted(len(merged), 'n-gram')}, {counted(len(encode(merged)), 'byte')}")
