"""`omnidraft inspect` and `wipe`: they tell the kinds of files and directories apart."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from omnidraft.commands.inspect.inspect_adapter import inspect_adapter
from omnidraft.commands.inspect.inspect_bundle import inspect_bundle
from omnidraft.commands.inspect.inspect_cache import inspect_cache
from omnidraft.commands.inspect.inspect_trace import inspect_trace
from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError, counted
from omnidraft.runtime.bundle.bundle import MANIFEST, open_bundle
from omnidraft.runtime.disk.read_file import read_file
from omnidraft.runtime.traces.trace_directory import wipe as wipe_trace
from omnidraft.runtime.traces.trace_file import MAGIC as TRACE
from omnidraft.runtime.traces.trace_reader import segments_of
from omnidraft.runtime.vocab.cache_file import MAGIC as CACHE
from omnidraft.runtime.vocab.cache_store import wipe as wipe_cache

Kind = Literal["adapter", "cache", "trace", "bundle"]
SUFFIXES: dict[str, Kind] = {".safetensors": "adapter", ".odc": "cache", ".odt": "trace"}


def kind_of(path: Path) -> Kind:
    """What a path is, by its first bytes, else by its name; a bundle or an archive where neither says."""
    if path.is_dir():
        return "trace" if not (path / MANIFEST).exists() and segments_of(path) else "bundle"
    try:
        head = read_file(path, max(len(CACHE), len(TRACE)))
    except OSError:  # whoever reads it says why it cannot be read
        head = b""
    if head.startswith(CACHE):
        return "cache"
    return "trace" if head.startswith(TRACE) else SUFFIXES.get(path.suffix, "bundle")


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A bundle, an archive, an adapter, a file of n-grams, or recordings.",
            readable=False,
        ),
    ],
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle",
            "-b",
            help="For learned or recorded files: check that they fit this bundle, and show text for ids.",
            readable=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Verify and show a bundle, an archive, an adapter, n-grams or recordings.

    PATH may also be a shared drafter, drafters/ADDRESS: then the bundles that use it are named. --json shows
    every n-gram of a cache, and every record of a trace; with --bundle also their text.
    """
    kind = kind_of(path)
    if kind == "bundle":
        if bundle is not None:
            raise SettingError(f"{path} is a bundle or nothing that is known", "leave --bundle out")
        return inspect_bundle(path, options.signer(), as_json)
    opened = None if bundle is None else open_bundle(bundle, options.signer())
    if kind == "adapter":
        return inspect_adapter(path, opened, as_json)
    if kind == "cache":
        return inspect_cache(path, opened, as_json)
    inspect_trace(path, opened, as_json)


def wipe(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A file of n-grams, or recordings.", readable=False)
    ],
) -> None:
    """Delete a file of n-grams, also a damaged one, or recordings. Other files stay."""
    kind = kind_of(path)
    if kind not in ("cache", "trace"):
        raise SettingError(f"{path} holds neither n-grams nor recordings, so it stays", "check the path")
    count = wipe_cache(path) if kind == "cache" else wipe_trace(path)
    print(f"{path}: {counted(count, 'file')} deleted")
