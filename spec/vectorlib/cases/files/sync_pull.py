"""Vectors of `sync/pull`: a device takes a release, or names the first fault."""

import hashlib
from dataclasses import replace
from typing import Any

from vectorlib.cases.files.adapter import ONE, file_of, parts
from vectorlib.cases.files.adapter_fit import O, model
from vectorlib.cases.files.cache import EXAMPLE
from vectorlib.cases.files.sync import CHANNEL, NOW, OTHER, PUBLIC, signed, stored, text
from vectorlib.reference.ngram_cache import encode
from vectorlib.writer import VectorWriter, vector

ADAPTER, CACHE = file_of(*parts(ONE)), encode(EXAMPLE)


def lines_of(adapter: bytes = ADAPTER, cache: bytes = CACHE, **changes: str) -> bytes:
    """The signed lines of a release of these files."""
    return text(**{"adapter": stored(adapter), "cache": stored(cache)} | changes)


def release(adapter: bytes = ADAPTER, cache: bytes = CACHE, **changes: str) -> bytes:
    """A release of these files."""
    return signed(lines_of(adapter, cache, **changes), adapter, cache)


def installed(**changes: str) -> str:
    """The pointer `current` of a device."""
    fields = CHANNEL | {"seen": "none", "refused": "0", "current": "none", "previous": "none"} | changes
    return "".join(
        f"{line}\n" for line in ("omnidraft.installed 1", *(f"{k} {v}" for k, v in fields.items()))
    )


def seen(signs: bytes) -> str:
    """The line `seen` of a device that verified a release of number 7."""
    return f"7 {hashlib.sha256(signs).hexdigest()}"


TAKEN = installed(seen=seen(lines_of()), current=f"7 {stored(ADAPTER)}")


def write(writer: VectorWriter) -> None:
    other = encode(replace(EXAMPLE, target="ab" * 32))
    without = signed(text(adapter="none", cache=stored(CACHE)), CACHE)
    cases: list[tuple[str, str, str | None, bytes, dict[str, Any], str | None]] = [
        ("pulled", "adapter and cache are verified, the adapter is installed", None, release(), {}, TAKEN),
        ("again", "the same release again", None, release(), {"installed": TAKEN}, TAKEN),
        ("cache_alone", "n-grams change nothing in the directory but what was seen", None, without, {},
         installed(seen=seen(text(adapter="none", cache=stored(CACHE))))),
        ("refused_before", "a release that was refused or given up", None, release(),
         {"installed": installed(refused="7")}, installed(refused="7", seen=seen(lines_of()))),
        ("older", "a release that is older than one seen", "older", release(),
         {"installed": installed(seen=f"8 {'33' * 32}")}, installed(seen=f"8 {'33' * 32}")),
        ("conflict", "other lines under a number that was seen", "conflict", release(),
         {"installed": installed(seen=f"7 {'33' * 32}")}, installed(seen=f"7 {'33' * 32}")),
        ("expired", "after its last second", "expired", release(), {"now": "2027-01-01T00:00:00Z"}, None),
        ("other_key", "signed by another publisher", "other_key",
         signed(text(key=OTHER.public_key().public_bytes_raw().hex()), b"an adapter", b"a cache", key=OTHER),
         {}, None),
        ("push", "what a device sent is no release", "other_kind",
         signed(text("push"), b"an adapter", b"a cache"), {}, None),
        ("cut", "the last byte is missing", "size", release()[:-1], {}, None),
        ("pointer_cut", "the pointer of the device has no last line", "malformed", release(),
         {"installed": installed()[:-14]}, installed()[:-14]),
        ("pointer_foreign", "the pointer is of another pair of models", "foreign", release(),
         {"installed": installed(base="cc" * 32)}, installed(base="cc" * 32)),
        ("adapter_refused", "a file that is not an adapter, with the right hash", "truncated",
         release(b"abc"), {}, None),
        ("adapter_of_other_sites", "it does not fit the drafter", "no_sites", release(),
         {"drafter": {**model(O), "lora": None}}, None),
        ("cache_refused", "a cache of another target, with its right hash", "foreign_vocabulary",
         release(cache=other), {}, None),
    ]  # fmt: skip
    writer.vectors("sync/pull", "releases", [_vector(*case) for case in cases])


def _vector(
    name: str, why: str, fault: str | None, file: bytes, others: dict[str, Any], pointer: str | None
) -> dict[str, Any]:
    given = {"file": file.hex(), "public_key": PUBLIC.hex(), "now": NOW, "installed": None, "map": "toy",
             "drafter": model(O), "target": {"fingerprint": CHANNEL["target"], "lora": None},
             **others}  # fmt: skip
    return vector(name, why, given, {"fault": fault, "pointer": pointer})
