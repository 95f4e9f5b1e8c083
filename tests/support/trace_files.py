"""Traces of the toy language for tests: values, and files written from the spec and not with the encoder."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from omnidraft.runtime.traces.trace import (
    Masses,
    Start,
    TracedRound,
    TracedToken,
    Vocabularies,
)
from omnidraft.runtime.traces.trace_file import MAGIC, Frame, Segment, TraceHeader
from support.toy import DRAFT, TARGET

TOY = Vocabularies("d" * 64, "e" * 64, len(DRAFT), len(TARGET))
Rng = np.random.Generator


def masses(rng: Rng, size: int, beside: float = 0.0) -> Masses:
    """A distribution over some ids, the rest of its mass elsewhere."""
    ids = np.flatnonzero(rng.random(size) < 0.4)
    shares = rng.dirichlet(np.ones(len(ids) + 1)) * (1.0 - beside)
    kept = shares[:-1] >= 2.0**-14
    rest = 1.0 - beside - float(shares[:-1][kept].sum())
    return Masses(ids[kept], shares[:-1][kept].astype(np.float16), max(0.0, float(np.float32(rest))))


def token(rng: Rng, accepted: bool) -> TracedToken:
    unspelled = float(np.float32(rng.choice([0.0, 0.1])))
    return TracedToken(
        int(rng.integers(len(TARGET))), float(np.float32(rng.exponential())), accepted,
        masses(rng, len(TARGET)), masses(rng, len(DRAFT), unspelled), unspelled,
    )  # fmt: skip


def random_round(rng: Rng) -> TracedRound:
    accepted = int(rng.integers(4))
    return TracedRound(tuple(token(rng, i < accepted) for i in range(accepted + 1)))


def start(rng: Rng) -> Start:
    context = tuple(int(d) for d in rng.integers(len(DRAFT), size=rng.integers(9)))
    adapter = None if rng.random() < 0.5 else "a" * 64
    return Start(adapter, None, "trie", bool(rng.random() < 0.3), 0, context)


def random_segment(rng: Rng, records: int = 3, rounds: int = 3) -> Segment:
    """Records whose rounds lie between one another."""
    frames: list[Frame] = []
    begun = 0
    for _ in range(records + records * rounds):
        if begun < records and (not begun or rng.random() < 0.3):
            frames.append(Frame(begun, start(rng)))
            begun += 1
        else:
            frames.append(Frame(int(rng.integers(begun)), random_round(rng)))
    return Segment(TraceHeader(TOY, 1), tuple(frames))


# Written from the spec

START = bytes(64) + struct.pack("<2BHI", 0, 0, 0, 0) + struct.pack("<2H", 1, 4)
ROUND = struct.pack("<I4B4f", 6, 0, 1, 1, 0, 0.5, 0.5, 0.5, 0.0)
ROUND += struct.pack("<He", 6, 0.5) + struct.pack("<He", 1, 0.5)


def frame(payload: bytes, kind: int, record: int = 0) -> bytes:
    data = struct.pack("<IHHI", len(payload), kind, 0, record) + payload
    return data + struct.pack("<I", zlib.crc32(data))


def build(*frames: bytes, version: int = 2) -> bytes:
    """A file from its parts, checksums right."""
    prints = bytes.fromhex("d" * 64 + "e" * 64)
    head = MAGIC + struct.pack("<4I", version, len(DRAFT), len(TARGET), 0) + prints + struct.pack("<Q", 1)
    body = b"".join(frames) if frames else frame(START, 1) + frame(ROUND, 2)
    return head + struct.pack("<I", zlib.crc32(head)) + body
