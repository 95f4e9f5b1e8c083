"""Mutated records and pointers: each is refused by name, or is written again as the same bytes.

PYTHONPATH=tests python -m fuzz.fuzz_sync [--count 100000] [--seconds 120] [--seed 0]
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from fuzz.command import command, numbers
from omnidraft.errors import SyncError
from omnidraft.runtime.bundle.signature import FILE_BYTES
from omnidraft.sync.channel import Channel
from omnidraft.sync.installed import POINTER, Installed, Seen, Used, read_installed
from omnidraft.sync.record import Contents, Kind, StoredFile, parse, read_signed, write_signed

CHANNEL = Channel("a" * 64, "b" * 64, "d" * 64, "e" * 64)
FILE, OTHER = StoredFile("1" * 64, 4096), StoredFile("2" * 64, 1 << 28)
FILES = Contents(b"an adapter", b"a cache", (), 300)
POINTED = Installed(CHANNEL, Seen(7, "3" * 64), 3, Used(7, FILE), Used(0, OTHER)).text
_PARTS = (
    b"", b"\n", b" ", b"none", b"0", b"9" * 16, b"8", b"-1", b"\r", b"\0", b"\xff", b"A" * 64, b"f" * 64,
    b"trace ", b"..", b"/", b"x" * 3000, b"1.5", b"omnidraft.push 2\n", b"\n\n",
)  # fmt: skip


def mutant(data: bytes, rng: random.Random) -> bytes:
    """A record with one to three changes: bytes, words or lines replaced, added, removed or moved."""
    for _ in range(rng.randint(1, 3)):
        how = rng.random()
        if how < 0.3:
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.choice(_PARTS) + data[at + rng.randrange(3) :]
        elif how < 0.5:
            lines = data.split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i] = rng.choice([b"", lines[j], lines[i] + b" 1", lines[i][:-1]])
            data = b"\n".join(lines)
        elif how < 0.8:
            words = data.split(b" ")
            words[rng.randrange(len(words))] = rng.choice([*_PARTS, rng.choice(words)])
            data = b" ".join(words)
        elif how < 0.9:
            data = data[: rng.randrange(len(data) + 1)]
        else:  # a digit, which often leaves a valid record
            at = rng.randrange(len(data) + 1)
            data = data[:at] + b"%d" % rng.randrange(10) + data[at + 1 :]
    return data


def read(kind: str, data: bytes, place: Path) -> None:
    """Read a file; what is accepted must be written again as the same bytes."""
    if kind == "pointer":
        (place / POINTER).write_bytes(data)
        installed = read_installed(place)
        assert installed is not None and installed.text == data
        assert all("/" not in name for name in installed.files)
    elif kind == "lines":
        assert parse(data, "push").text == data
    else:
        known: Kind = "push" if kind == "push" else "release"
        signed = read_signed(data, known, None)
        assert data[FILE_BYTES:].startswith(signed.record.text) and len(data) == signed.record.size


def originals() -> dict[str, bytes]:
    """A valid file of each kind."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    push = write_signed("push", CHANNEL, Contents(b"x", None, (b"one", b"two"), 3), key)
    lines = read_signed(push, "push", None).record.text
    release = write_signed("release", CHANNEL, FILES, key)
    return {"release": release, "push": push, "lines": lines, "pointer": POINTED}


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Try that many mutants, or as many as the time allows, and count how each ended."""
    rng, seen = random.Random(seed), Counter[str]()
    kinds = originals()
    with tempfile.TemporaryDirectory() as name:
        for kind, data in kinds.items():
            read(kind, data, Path(name))  # without a change they are valid
        for _ in numbers(count, seconds):
            kind = rng.choice(list(kinds))
            try:
                read(kind, mutant(kinds[kind], rng), Path(name))
                seen["valid"] += 1
            except SyncError as error:
                seen[error.fault if str(error) else "no sentence"] += 1
    return seen


if __name__ == "__main__":
    command(__doc__, "records", 100_000, fuzz)
