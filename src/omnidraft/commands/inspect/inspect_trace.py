"""`omnidraft inspect` of recorded generations."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.commands.inspect.inspect_cache import Names, shown_bytes
from omnidraft.commands.terminal.options import print_json
from omnidraft.errors import counted
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.traces.trace import Traced, Vocabularies
from omnidraft.runtime.traces.trace_file import VERSION
from omnidraft.runtime.traces.trace_reader import read_segments


def inspect_trace(trace: Path, bundle: Bundle | None, as_json: bool) -> None:
    """Verify a trace and show how much it holds; with a bundle, also that it is of the bundle's pair."""
    names = None if bundle is None else Names.of_bundle(bundle)
    counts = summary(trace, names)
    if as_json:
        return print_json({**counts, "recordings": list(records_json(trace, names))})
    print(
        f"{trace}: {counted(counts['records'], 'record')} in {counted(counts['segments'], 'file')} "
        f"of {counted(counts['bytes'], 'byte')} together"
    )
    drafter, target = counts["draft_fingerprint"], counts["target_fingerprint"]
    print(f"  drafter {drafter[:12]}, target {target[:12]} (SHA-256 of the tokenizers)")
    print(
        f"  {counted(counts['tokens'], 'target token')} in {counted(counts['rounds'], 'round')}, "
        f"{counts['accepted']:,} of them from accepted drafts"
    )
    if counts["torn_bytes"]:
        print(f"  left out: {counted(counts['torn_bytes'], 'byte')} of interrupted writes")
    print("  with the bundle, every prompt and answer in it can be read; `omnidraft wipe` deletes it")


def summary(trace: Path, names: Names | None) -> dict[str, Any]:
    """Counts over all files of a trace.

    Args:
        names: of the bundle that the trace must be of; None checks no bundle.
    """
    counts = dict.fromkeys(("records", "rounds", "tokens", "accepted", "bytes", "torn_bytes"), 0)
    segments, vocabularies = 0, None
    for file, segment in read_segments(trace, _vocabularies(names)):
        segments, vocabularies = segments + 1, segment.header.vocabularies
        counts["bytes"] += file.stat().st_size
        counts["torn_bytes"] += segment.torn
        for record in segment.generations():
            counts["records"] += 1
            counts["rounds"] += len(record.rounds)
            counts["tokens"] += len(record.tokens)
            counts["accepted"] += sum(token.accepted for token in record.tokens)
    fingerprints = vocabularies.__dict__ if vocabularies else {}
    return {"version": VERSION, "segments": segments, **counts, **fingerprints}


def _vocabularies(names: Names | None) -> Vocabularies | None:
    return None if names is None else Vocabularies.of(names.vocab_map)


def records_json(trace: Path, names: Names | None) -> Iterator[dict[str, Any]]:
    """The records as JSON objects: ids, probabilities and, with names, the text of the ids."""
    for _, segment in read_segments(trace, _vocabularies(names)):
        for record in segment.generations():
            yield _record_json(record, names)


def _record_json(record: Traced, names: Names | None) -> dict[str, Any]:
    start, text = record.start, {}
    if names is not None:
        pieces = names.pieces
        before = b"".join((pieces[d] if d < len(pieces) else None) or b"" for d in start.context)
        written = b"".join(names.vocab_map.bytes_of(token.token_id) for token in record.tokens)
        text = {"text_before": shown_bytes(before), "text": shown_bytes(written)}
    return {**text, **as_json(start), "rounds": as_json(record.rounds)}


def as_json(value: Any) -> Any:
    """A value of a record as JSON: its fields by name, lists for tuples and arrays."""
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [as_json(each) for each in value] if isinstance(value, tuple) else value
