"""`omnidraft inspect` of a file of learned n-grams."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.commands.terminal.options import print_json
from omnidraft.errors import counted
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.session.language_model import load_tokenizer
from omnidraft.runtime.vocab.cache_file import VERSION, encode
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.runtime.vocab.cache_table import CacheTable, eviction_order
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map

TOP = 10  # most used n-grams that are printed


def inspect_cache(file: Path, bundle: Bundle | None, as_json: bool) -> None:
    """Verify a cache and show its counts and its most used n-grams; with a bundle, also that it fits."""
    names = None if bundle is None else Names.of_bundle(bundle)
    table = read_table(file, names.vocab_map if names else None)
    counts = summary(table)
    most = eviction_order(table.hits, table.ticks)[::-1]
    if as_json:
        return print_json({**counts, "ngrams": entries_json(table, most.tolist(), names)})
    per_entry = f", {counts['bytes_per_entry']} an entry" if len(table) else ""
    print(f"{file}: {counted(counts['entries'], 'n-gram')} in {counted(counts['bytes'], 'byte')}{per_entry}")
    print(f"  drafter {counts['drafter'][:12]}, target {counts['target'][:12]} (SHA-256 of the tokenizers)")
    drafted = f", {counts['accepted']:,} of them as accepted drafts" if counts["accepted"] else ""
    print(f"  written {counted(counts['hits'], 'time')} in {counted(counts['rounds'], 'round')}{drafted}")
    for entry in entries_json(table, most[:TOP].tolist(), names):
        print(f"  {entry['hits']:>10,}  {_line(entry)}")


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
    def of_bundle(cls, bundle: Bundle) -> "Names":
        """The names of a bundle's pair.

        Raises:
            VocabMapError, TokenizerError: its map or a tokenizer is refused.
        """
        drafter = load_tokenizer(bundle, bundle.drafter)
        return cls(load_vocab_map(bundle.file(bundle.vocab_map)), drafter.tokens)


def entries_json(table: CacheTable, chosen: Sequence[int], names: Names | None) -> list[dict[str, Any]]:
    """Entries as JSON objects: ids and counts and, with names, the text and the bytes of the ids.

    Args:
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
            "text": shown_bytes(data),
            "pieces": [shown_bytes(piece) for piece in written],
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


def _line(entry: dict[str, Any]) -> str:
    if "text" in entry:
        return f"{entry['text']!r} = {' '.join(repr(piece) for piece in entry['pieces'])}"
    return f"target {entry['target_id']} = draft {' '.join(map(str, entry['draft_ids']))}"


def shown_bytes(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 as its escape."""
    return data.decode("utf-8", "backslashreplace")
