"""Attempts with the other files: adapters, caches, traces, vocabulary maps and sessions."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from hostile.bundle_attacks import SETTINGS, Attempt
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.session_file import MAGIC as SESSION
from omnidraft.runtime.traces.trace_reader import read_traces
from omnidraft.runtime.vocab.cache_file import MAGIC as CACHE
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from support.adapters import adapter_of
from support.trace_files import START, build, frame

PROMPT = "How many legs do 3 cats have?"


def adapters(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Adapters whose numbers are absurd, and files whose headers promise too much."""
    opened = open_bundle(bundle)
    right = adapter_of(opened, "drafter")
    for value in (3e38, -3e38, 1e19, 1e4):
        full = {
            name: (np.full_like(a, value), np.full_like(b, value)) for name, (a, b) in right.tensors.items()
        }
        yield f"an adapter full of {value:g}", partial(_adapted, bundle, replace(right, tensors=full))
    for name, text in {
        "99 MB of empty lists": b'{"__metadata__":[' + b"[]," * 33_000_000 + b"[]]}",
        "20 MB of empty lists": b'{"a":[' + b"[]," * 6_600_000 + b"[]]}",
        "4 MB of empty lists": b'{"a":[' + b"[]," * 1_390_000 + b"[]]}",
        "50,000 tensors of nothing": json.dumps(
            {"__metadata__": {"format": "omnidraft.adapter", "version": "1"}}
            | {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(50_000)}
        ).encode(),
    }.items():
        path = work / "adapter.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        yield f"an adapter's header: {name}", partial(read_adapter, path)
    path = work / "sparse.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 100) + b"{" + b" " * 99)
        file.truncate(8 << 30)
    yield "an adapter of 8 GB without contents", partial(read_adapter, path)


def _adapted(bundle: Path, adapter: Adapter) -> str:
    session, said = load(bundle, adapter=adapter, measure="never"), set[str]()
    plain = session.generate(PROMPT, mode="plain", max_new_tokens=10).finish().text
    for mode in ("trie", "direct", "paper", "match"):
        for setting in SETTINGS:
            config: dict[str, Any] = {"max_new_tokens": 10, "num_draft_tokens": 3, "seed": 1, **setting}
            each = session.generate(PROMPT, mode=mode, **config).finish()
            assert setting or each.text == plain, "greedy text is the target's"
            said.add("unsound" if each.statistics.unsound else "sound")
    return ", ".join(sorted(said))


def caches(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Files of n-grams with as many entries as a file may have, of any vocabulary."""
    vocab_map = load_vocab_map(bundle / "vocab_map.safetensors")
    own = vocab_map.draft_fingerprint + vocab_map.target_fingerprint
    for name, prints in {"foreign": "ab" * 64, "of this pair": own}.items():
        for entries in (1 << 20, 1 << 23):
            path = work / f"{name}-{entries}.odc"
            path.write_bytes(_cache(entries, prints))
            yield f"a cache of {entries:,} entries, {name}", partial(_with_cache, bundle, path)
    path = work / "script.py"
    path.write_bytes(b"print(1)\n")
    yield "a cache that is a script", partial(_with_cache, bundle, path)
    path = work / "pipe"
    os.mkfifo(path)
    yield "a cache that is a pipe", partial(_with_cache, bundle, path)


def _cache(n: int, prints: str) -> bytes:
    targets = np.arange(n, dtype="<u4").tobytes()
    sections = targets, b"\x02" * n, bytes(2 * n), bytes(n), bytes(2 * n)
    head = (
        CACHE
        + struct.pack("<I", 2)
        + bytes((4, 1, 1, 1))
        + bytes.fromhex(prints)
        + struct.pack("<III", n, 9, 0)
    )
    for section in sections:
        head += struct.pack("<II", len(section), zlib.crc32(section))
    return head + struct.pack("<I", zlib.crc32(head)) + b"".join(sections)


def _with_cache(bundle: Path, path: Path) -> str:
    session = load(bundle, cache=path, measure="never")
    before = path.stat()
    text = session.generate(PROMPT, max_new_tokens=4).finish().text
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    return f"{session.notices}: {text}"


def traces(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Segments that hold as many tokens or records as their bytes allow."""
    row = struct.pack("<I4B4f", 6, 0, 0, 0, 0, 0.5, 1.0, 1.0, 0.0) * 255
    for megabytes in (2, 4, 16):
        rounds = frame(row, 2) * (megabytes * 1_000_000 // (len(row) + 16))
        yield from _trace(work, f"{megabytes} MB of tokens without distributions", frame(START, 1) + rounds)
    records = b"".join(frame(START, 1, n) for n in range(4_000_000 // (len(START) + 16)))
    yield from _trace(work, "4 MB of records without rounds", records)
    yield from _trace(work, "a frame that promises 4 GB", struct.pack("<IHHI", 0xFFFFFFFF, 2, 0, 0))


def _trace(work: Path, name: str, frames: bytes) -> Iterator[Attempt]:
    path = work / "trace-0000000001.odt"
    path.write_bytes(build(frames))
    yield f"a trace: {name}", lambda: sum(1 for _ in read_traces(path))


def maps(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Vocabulary maps whose tables are of other types, lengths and orders."""
    file = bundle / "vocab_map.safetensors"
    whole = load_vocab_map(file)
    tensors, path = dict(whole.tensors()), work / "map.safetensors"
    leaves = len(whole.leaves)

    def attempt(name: str, changes: dict[str, Any]) -> Attempt:
        save_file({**tensors, **changes}, path, metadata=whole.metadata())
        return f"a map: {name}", partial(load_vocab_map, path)

    for name, tensor in tensors.items():
        yield attempt(f"{name} of float64", {name: tensor.astype(np.float64)})
        yield attempt(f"{name} empty", {name: tensor[:0]})
        yield attempt(
            f"{name} of the largest numbers", {name: np.full_like(tensor, np.iinfo(tensor.dtype.name).max)}
        )
    for length in (100_000, 1_000_000, 10_000_000):
        for same in (1, 2):  # leaves with that spelling
            offsets = whole.spellings.offsets.copy()
            extra = np.zeros(same * length, np.int32)
            extra[-1] = 1
            for n in range(same):
                offsets[int(whole.leaves[leaves - 1 - n]) + 1 :] += length
            changes = {
                "spellings": np.concatenate([whole.spellings.values, extra]),
                "spelling_offsets": offsets,
            }
            yield attempt(f"{same} spellings of {length:,} draft tokens", changes)
    for size in (1 << 16, 90_000_000):
        text = b'{"__metadata__":{' + b",".join(b'"%d":""' % i for i in range(size // 12)) + b"}}"
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        yield f"a map: header of {len(text):,} bytes", partial(load_vocab_map, path)


def sessions(bundle: Path, work: Path) -> Iterator[Attempt]:
    """Session files whose state is too deep, too large or absurd; other tests try each field."""
    session = load(bundle, measure="never")
    session.generate(PROMPT, max_new_tokens=8).finish()
    session.save(work / "whole.session")
    data = (work / "whole.session").read_bytes()
    magic, version, reserved, size, *_ = struct.unpack_from("<8s6I", data)
    assert magic == SESSION
    state, cache = data[32 : 32 + size], data[32 + size :]
    answer = json.loads(state)["answer"]

    def changed(**fields: Any) -> bytes:
        value = json.loads(state)
        value["answer"]["config"].update(fields)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    strings = [f"stop {i} {'x' * 20}" for i in range(100_000)]
    for name, text in {
        "lists in lists": b"[" * 1_000_000,
        "15 MB of lists": b"[" + b"[]," * 5_000_000 + b"[]]",
        "100,000 stop strings": changed(stop=strings),
        "a stop string of 10 MB": changed(stop=["x" * 10_000_000]),
        "max_new_tokens 2^64": changed(max_new_tokens=2**64 - 1),
        "temperature 10^400": changed().replace(
            b'"temperature":"', b'"temperature":1' + b"0" * 400 + b',"x":"', 1),
        "temperature NaN": changed(temperature="7ff8000000000000"),
        "top_p below everything": changed(top_p="0000000000000001"),
        "a million prompt ids": state.replace(json.dumps(answer["prompt"], separators=(",", ":")).encode(),
                                              b"[" + b"1," * 1_000_000 + b"1]"),
    }.items():  # fmt: skip
        path = work / "changed.session"
        head = struct.pack(
            "<8s6I", magic, version, reserved, len(text), len(cache), zlib.crc32(text), zlib.crc32(cache)
        )
        path.write_bytes(head + text + cache)
        yield f"a session: {name}", partial(_restored, bundle, path)
    path = work / "sparse.session"
    with path.open("wb") as file:
        file.write(data[:32])
        file.truncate(8 << 30)
    yield "a session of 8 GB without contents", partial(_restored, bundle, path)


def _restored(bundle: Path, path: Path) -> str:
    session = load(bundle, measure="never")
    session.load(path)
    answer = session.answer
    if answer is not None and answer.stop_reason is None:
        return session.resume().finish().text
    return "restored"
