"""Mutated archives: each is refused by name, or holds the manifest and the files of the bundle.

    PYTHONPATH=tests python -m fuzz.fuzz_archive [--count 10000] [--seconds 120] [--seed 0]

Half of the mutants change the bytes around the files: headers, names, padding, the directory. The others
change the manifest, the index or a file, and get right headers and checksums again.
"""

from __future__ import annotations

import random
import tempfile
import zlib
from collections import Counter
from pathlib import Path

from fuzz.command import command, numbers
from omnidraft.errors import BundleError
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.archive.archive import check_hashes
from omnidraft.runtime.archive.open_archive import open_archive
from omnidraft.runtime.archive.unpack import unpack
from omnidraft.runtime.archive.zip_layout import ArchiveEntry, central_directory
from omnidraft.runtime.parts.pack_index import INDEX
from support.packable import packable

_EDGES = (0, 1, 2, 8, 255, 256, 16_384, 65_535, 2**31, 2**32 - 2, 2**32 - 1)
Files = list[tuple[str, bytes]]


def written(files: Files) -> bytes:
    """An archive of files in any order, with right headers."""
    data, entries = b"", list[ArchiveEntry]()
    for name, content in files:
        entries.append(ArchiveEntry(name, len(data), len(content), zlib.crc32(content)))
        data += entries[-1].local_header() + content
    return data + central_directory(entries, len(data))


def changed_bytes(data: bytes, places: list[range], rng: random.Random) -> bytes:
    """An archive with a few other bytes around its files, or with some more or fewer."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.choice(rng.choice(places))
        kind = rng.random()
        if kind < 0.4:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif kind < 0.7:
            width = rng.choice((2, 4))
            value = rng.choice(_EDGES) % (1 << 8 * width)
            changed[at : at + width] = value.to_bytes(width, "little")
        elif kind < 0.8:
            del changed[at : at + rng.randint(1, 8)]
        elif kind < 0.9:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
        else:
            del changed[rng.randrange(len(changed)) :]
    return bytes(changed)


def changed_files(files: Files, rng: random.Random) -> bytes:
    """An archive with right headers, whose files are others, fewer, more, or in another order."""
    changed = list(files)
    kind, number = rng.random(), rng.randrange(len(files))
    name, content = changed[number]
    if kind < 0.5:
        damaged = bytearray(content or b"x")
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        changed[number] = name, bytes(damaged)
    elif kind < 0.6:
        changed[number] = name, content + b" "
    elif kind < 0.7:
        del changed[number]
    elif kind < 0.8:
        changed.insert(rng.randrange(len(files) + 1), (rng.choice(("more", "a/b", name.upper())), content))
    elif kind < 0.9:
        rng.shuffle(changed)
    return written(changed)


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Read mutants until a limit is reached; return the number of each outcome."""
    rng, seen = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        bundle = packable(place / "bundle")
        good = open_archive(pack(bundle, place / "good.zip", PackOptions("android-cpu")).path)
        data = good.path.read_bytes()
        entries = list(good.entries.values())
        files = [(entry.name, data[entry.begin : entry.end]) for entry in entries]
        assert written(files) == data
        near = [range(e.at, e.at + 40 + len(e.name)) for e in entries]
        places = [*near, range(entries[-1].end, len(data))]
        file = place / "mutant.zip"
        for number in numbers(count, seconds):
            file.write_bytes(
                changed_bytes(data, places, rng) if rng.random() < 0.5 else changed_files(files, rng)
            )
            try:
                archive = open_archive(file)
                check_hashes(archive)
            except BundleError as error:
                seen[error.fault] += 1
                continue
            seen["valid"] += 1
            held = {each: bytes(archive.mapped(each)) for each in archive.entries if each != INDEX}
            expected = {each: content for each, content in files if each in held}
            assert held == expected, f"mutant {number} of seed {seed} holds other files"
            if seen["valid"] == 1:
                unpack(archive, place / "unpacked")
        assert "" not in seen, "a refusal without the name of its fault"
    return seen


if __name__ == "__main__":
    command(__doc__, "archives", 10_000, fuzz)
