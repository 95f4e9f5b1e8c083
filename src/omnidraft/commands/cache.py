"""`omnidraft cache`: inspect, merge, shorten, export and delete files of learned n-grams."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from omnidraft.commands.terminal.options import PUBLIC_KEY, Json, print_json
from omnidraft.errors import SettingError, counted
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.disk.atomic_write import place_of, write_atomically
from omnidraft.runtime.session.loaded_bundle import load_tokenizer
from omnidraft.runtime.vocab.cache_file import VERSION, encode
from omnidraft.runtime.vocab.cache_store import read_table, wipe, write_table
from omnidraft.runtime.vocab.cache_table import CacheTable, eviction_order, merge
from omnidraft.runtime.vocab.ngram_cache import POLICIES
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map

app = typer.Typer(
    help="Files of learned n-grams: inspect, merge, shorten, export or delete them.\n\n"
    "`omnidraft generate BUNDLE PROMPT --cache FILE` makes one.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CachePath = Annotated[Path, typer.Argument(metavar="FILE", help="A file of learned n-grams.", readable=False)]
BundlePath = Annotated[
    Path | None,
    typer.Option(
        "--bundle", "-b", help="The bundle that it belongs to; shows text instead of ids.", readable=False
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Where to write the result (default: in place).", readable=False),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Also replace a file that this command did not write.")
]


@dataclass(frozen=True)
class Names:
    """The bytes of ids.

    Attributes:
        vocab_map: has the bytes of the target's tokens.
        pieces: bytes of each draft token; None for control tokens.
    """

    vocab_map: VocabMap
    pieces: Sequence[bytes | None]

    @classmethod
    def of_bundle(cls, path: Path) -> "Names":
        """The names of a bundle's pair.

        Raises:
            BundleError, VocabMapError, TokenizerError: the bundle is refused.
        """
        # Commands that run graphs have the option --public-key; the variable holds for all commands.
        bundle = open_bundle(path, os.environ.get(PUBLIC_KEY) or None)
        drafter = load_tokenizer(bundle, bundle.drafter)
        return cls(load_vocab_map(bundle.file(bundle.vocab_map)), drafter.tokens)


def entries_json(table: CacheTable, chosen: Sequence[int], names: Names | None) -> list[dict[str, Any]]:
    """Entries as JSON objects: ids and counts and, with names, the text and the bytes of the ids.

    Args:
        table: of the cache.
        chosen: indices of the entries.
        names: of the bundle; None shows ids alone.
    """
    counts = zip(
        *(column[chosen].tolist() for column in (table.hits, table.accepted, table.ticks)), strict=True
    )
    return [
        _entry_json(int(table.targets[i]), [int(d) for d in table.spellings.row(i)], names)
        | {"hits": hits, "accepted": accepted, "last_round": tick}
        for i, (hits, accepted, tick) in zip(chosen, counts, strict=True)
    ]


def _entry_json(target: int, pieces: list[int], names: Names | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"target_id": target, "draft_ids": pieces}
    if names is not None:
        data = names.vocab_map.bytes_of(target)
        written = [(names.pieces[d] if d < len(names.pieces) else None) or b"" for d in pieces]
        entry |= {
            "text": _show(data),
            "pieces": [_show(piece) for piece in written],
            "bytes": data.hex(),
            "piece_bytes": [piece.hex() for piece in written],
        }
    return entry


def summary(table: CacheTable) -> dict[str, Any]:
    """What `inspect` prints."""
    size = len(encode(table))
    return {
        "version": VERSION,
        "drafter": table.draft_fingerprint,
        "target": table.target_fingerprint,
        "entries": len(table),
        "bytes": size,
        "bytes_per_entry": round(size / len(table), 2) if len(table) else None,
        "rounds": table.tick,
        "hits": int(table.hits.sum(dtype=np.uint64)),
        "accepted": int(table.accepted.sum(dtype=np.uint64)),
    }


def prune(table: CacheTable, max_entries: int, policy: str) -> CacheTable:
    """The table without the entries that the policy evicts first.

    Raises:
        SettingError: the bound is below 0, or the policy is unknown.
    """
    if policy not in POLICIES:
        raise SettingError(f'--policy "{policy}" is unknown', f"use {' or '.join(POLICIES)}")
    if max_entries < 0:
        raise SettingError(
            f"--max-entries {max_entries} is less than 0", "`omnidraft cache wipe` deletes a cache"
        )
    order = eviction_order(policy, table.hits, table.ticks, table.targets)
    return table.keep(np.sort(order[max(0, len(table) - max_entries) :]))


@app.command("inspect")
def inspect_command(
    file: CachePath,
    bundle: BundlePath = None,
    top: Annotated[int, typer.Option(min=0, help="Show this many of the most used n-grams.")] = 10,
    as_json: Json = False,
) -> None:
    """Verify a cache and show its size, its counts and its most used n-grams.

    With --bundle it is also compared with the bundle's vocabulary map.
    """
    names, table = _open(file, bundle)
    counts = summary(table)
    most = eviction_order("lfu", table.hits, table.ticks, table.targets)[::-1][:top]
    used = entries_json(table, most.tolist(), names)
    if as_json:
        return print_json({**counts, "most_used": used})
    per_entry = f", {counts['bytes_per_entry']} an entry" if len(table) else ""
    print(f"{file}: {counted(counts['entries'], 'n-gram')} in {counted(counts['bytes'], 'byte')}{per_entry}")
    print(f"  drafter {counts['drafter'][:12]}, target {counts['target'][:12]} (SHA-256 of the tokenizers)")
    drafted = f", {counts['accepted']:,} of them as accepted drafts" if counts["accepted"] else ""
    print(f"  written {counted(counts['hits'], 'time')} in {counted(counts['rounds'], 'round')}{drafted}")
    for entry in used:
        print(f"  {entry['hits']:>10,}  {_line(entry)}")


@app.command("merge")
def merge_command(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Caches of one pair of models.", readable=False),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The merged cache; may be one of the files.", readable=False),
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Merge several caches: all their n-grams, each with its largest counts.

    The order does not matter, and merging a cache twice changes nothing.
    """
    tables = [read_table(file) for file in files]
    merged = tables[0]
    for table in tables[1:]:
        merged = merge(merged, table)
    write_table(out, merged, overwrite=overwrite)
    _report(out, merged, as_json, entries_of_each=[len(t) for t in tables])


@app.command("prune")
def prune_command(
    file: CachePath,
    max_entries: Annotated[int, typer.Option("--max-entries", "-n", help="Number of entries to keep.")],
    policy: Annotated[
        str, typer.Option(help="Entries to drop first: lfu, the least used; lru, the longest unused.")
    ] = "lfu",
    out: Out = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Keep the most useful entries of a cache and drop the others."""
    table = read_table(file)
    left = prune(table, max_entries, policy)
    write_table(out or file, left, overwrite=overwrite)
    _report(out or file, left, as_json, removed=len(table) - len(left))


@app.command("export-json")
def export_json_command(
    file: CachePath,
    bundle: BundlePath = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file (default: standard output).", readable=False),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a cache as JSON: each target token with its pieces, as text and as bytes.

    Without --bundle it has ids only. omnidraft does not read the JSON back; to keep a cache, copy its file.
    """
    names, table = _open(file, bundle)
    whole = {**summary(table), "ngrams": entries_json(table, range(len(table)), names)}
    if out is None:
        return print_json(whole)
    text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
    try:
        place = place_of(out)
        if place.exists() and os.path.samefile(place, file):
            raise SettingError(f"{out} is the cache itself", "choose another place")
        if not overwrite and not _may_replace(place):
            raise SettingError(
                f"{out} is not an exported cache, so it is not replaced",
                "choose another place or add --overwrite",
            )
        write_atomically(place, text.encode())
    except OSError as error:
        raise SettingError(f"{out} cannot be written ({error.strerror})", "choose another place") from None
    sys.stderr.write(f"omnidraft: {counted(len(table), 'n-gram')} written to {out}\n")


def _may_replace(place: Path) -> bool:
    """Whether the file is absent, empty, or written by `export-json`."""
    if not place.exists() or place.stat().st_size == 0:
        return True
    try:
        value = json.loads(place.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and {"ngrams", "drafter", "target"} <= value.keys()


@app.command("wipe")
def wipe_command(file: CachePath, as_json: Json = False) -> None:
    """Delete a cache, also a damaged one, and the temporary files of its writes.

    A file that is not a cache stays.
    """
    count = wipe(file)
    if as_json:
        return print_json({"path": str(file), "deleted": count})
    print(f"{file}: deleted")


def _open(file: Path, bundle: Path | None) -> tuple[Names | None, CacheTable]:
    names = None if bundle is None else Names.of_bundle(bundle)
    return names, read_table(file, names.vocab_map if names else None)


def _report(path: Path, table: CacheTable, as_json: bool, **more: object) -> None:
    if as_json:
        return print_json({"path": str(path), **summary(table), **more})
    print(f"{path}: {counted(len(table), 'n-gram')}, {counted(len(encode(table)), 'byte')}")


def _line(entry: dict[str, Any]) -> str:
    if "text" in entry:
        return f"{entry['text']!r} = {' '.join(repr(piece) for piece in entry['pieces'])}"
    return f"target {entry['target_id']} = draft {' '.join(map(str, entry['draft_ids']))}"


def _show(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
