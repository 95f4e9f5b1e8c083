"""Vectors of `sync/pull`: a device takes a release from a store, or names the first fault."""

import hashlib
from dataclasses import replace
from typing import Any

from vectorlib.cases.files.adapter import ONE, file_of, parts
from vectorlib.cases.files.adapter_fit import O, model
from vectorlib.cases.files.cache import EXAMPLE
from vectorlib.cases.files.sync import CHANNEL, NOW, OURS, PUBLIC, lines, release, signed
from vectorlib.reference.ngram_cache import encode
from vectorlib.writer import VectorWriter, vector

ADAPTER, CACHE = file_of(*parts(ONE)), encode(EXAMPLE)
Files = dict[str, bytes]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


ID = _sha256("".join(f"{k} {v}\n" for k, v in CHANNEL.items()).encode())
FOLDER = f"channels/{ID}"


def store(adapter: bytes = ADAPTER, cache: bytes = CACHE, **changes: str) -> Files:
    """A store with a release of these files."""
    text = release(
        adapter=f"{_sha256(adapter)} {len(adapter)}", cache=f"{_sha256(cache)} {len(cache)}", **changes
    )
    return {
        f"{FOLDER}/latest": signed(text, OURS),
        f"{FOLDER}/files/{_sha256(adapter)}.safetensors": adapter,
        f"{FOLDER}/files/{_sha256(cache)}.odc": cache,
    }


def changed(name: str, data: bytes | None) -> Files:
    """The store with other bytes of the file whose name ends so; None: without it."""
    files = {path: data if path.endswith(name) else whole for path, whole in store().items()}
    return {path: each for path, each in files.items() if each is not None}


def installed(key: str, **changes: str) -> str:
    """The pointer `current` of a device that checked a signature by a key, and has no adapter."""
    others = {"seen": "none", "refused": "0", "key": key, "current": "none", "previous": "none"}
    return lines("omnidraft.installed 1", CHANNEL | others | {"cache": "none"} | changes).decode()


def seen(files: Files) -> str:
    """The line `seen` of a device that verified the release of a store."""
    return f"7 {_sha256(files[f'{FOLDER}/latest'][200:])}"


UNSIGNED = installed("none", seen=f"{'9' * 15} {'33' * 32}", refused="9")  # of a pull without a key
AFTER_FILES = ("adapter_", "cache_")  # cases whose release is verified and whose files are refused


def write(writer: VectorWriter) -> None:
    flipped = bytes([CACHE[0] ^ 1])
    bare, other = store()[f"{FOLDER}/latest"], encode(replace(EXAMPLE, target="ab" * 32))
    cases: list[tuple[str, str, str | None, Files | None, dict[str, Any]]] = [
        ("pulled", "adapter and cache are verified and installed", None, store(), {}),
        ("unchecked", "no key is given and none was given before", None, store(), {"public_key": None}),
        ("key_before", "the key with which the device checked before", None, store(),
         {"installed": installed("21fe31dfa154a261")}),
        ("no_release", "a store without the file latest", "missing", changed("latest", None), {}),
        ("empty_store", "a store without any file", "missing", {}, {}),
        ("other_channel", "releases of another pair of models alone", "missing",
         {path.replace(ID, "0" * 64): data for path, data in store().items()}, {}),
        ("store_unreachable", "the store cannot be read", "unreachable", None, {}),
        ("latest_too_large", "latest has 2,049 bytes", "too_large",
         changed("latest", bare + bytes(2049 - len(bare))), {}),
        ("latest_largest", "2,048 bytes are read, and are not canonical", "wrong_signature",
         changed("latest", bare + bytes(2048 - len(bare))), {}),
        ("unsigned", "no key is given, and the device checked a signature before", "unsigned", store(),
         {"public_key": None, "installed": installed("21fe31dfa154a261")}),
        ("unsigned_before_missing", "the first fault is named", "unsigned", {},
         {"public_key": None, "installed": installed("21fe31dfa154a261")}),
        ("pointer_cut", "the pointer of the device has no last line", "malformed", store(),
         {"installed": installed("none")[:-12]}),
        ("adapter_missing", "the adapter is not in the store", "missing", changed(".safetensors", None), {}),
        ("adapter_longer", "one byte more than the release says", "too_large",
         changed(".safetensors", ADAPTER + b"\0"), {}),
        ("adapter_shorter", "one byte less", "size", changed(".safetensors", ADAPTER[:-1]), {}),
        ("adapter_flipped", "a bit changed", "checksum", changed(".safetensors", ADAPTER[:-1] + b"\1"), {}),
        ("adapter_refused", "a file that is not an adapter, with the right hash", "truncated",
         store(b"abc"), {}),
        ("adapter_of_other_sites", "it does not fit the drafter", "no_sites", store(),
         {"drafter": {**model(O), "lora": None}}),
        ("cache_missing", "the cache is not in the store", "missing", changed(".odc", None), {}),
        ("cache_longer", "one byte more than the release says", "too_large",
         changed(".odc", CACHE + b"\0"), {}),
        ("cache_shorter", "one byte less", "size", changed(".odc", CACHE[:-1]), {}),
        ("cache_flipped", "a bit changed", "checksum", changed(".odc", flipped + CACHE[1:]), {}),
        ("cache_refused", "a cache of another target, with its right hash", "foreign_vocabulary",
         store(cache=other), {}),
        ("adapter_first", "both files are damaged", "checksum",
         changed(".safetensors", ADAPTER[:-1] + b"\1") | {p: b"" for p in store() if p.endswith(".odc")}, {}),
        ("release_before_files", "the release is too old, and its files are absent", "expired",
         {f"{FOLDER}/latest": bare}, {"now": "2027-01-01T00:00:00Z"}),
        ("unsigned_seen", "what was seen without a key does not count against a signed release", None,
         store(), {"installed": UNSIGNED}),
        ("unsigned_seen_unchecked", "and counts where no key is given", "older", store(),
         {"installed": UNSIGNED, "public_key": None}),
        ("cache_missing_unchecked", "the release is seen, and no key was used", "missing",
         changed(".odc", None), {"public_key": None}),
    ]  # fmt: skip
    writer.vectors("sync/pull", "stores", [_vector(*case) for case in cases])


def _vector(
    name: str, why: str, fault: str | None, files: Files | None, others: dict[str, Any]
) -> dict[str, Any]:
    shown = None if files is None else {path: data.hex() for path, data in files.items()}
    given = {"store": shown, "public_key": PUBLIC.hex(), "now": NOW, "installed": None, "map": "toy",
             "drafter": model(O), "target": {"fingerprint": CHANNEL["target"], "lora": None},
             **others}  # fmt: skip
    pointer, key = given["installed"], "none" if given["public_key"] is None else "21fe31dfa154a261"
    if files is not None and (fault is None or name.startswith(AFTER_FILES)):
        pointer = installed(key, seen=seen(files))
    if fault is None:
        stored = {
            "current": f"7 {_sha256(ADAPTER)} {len(ADAPTER)}",
            "cache": f"{_sha256(CACHE)} {len(CACHE)}",
        }
        pointer = installed(key, seen=seen(store()), **stored)
    return vector(name, why, given, {"fault": fault, "pointer": pointer})
