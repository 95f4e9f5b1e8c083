"""Check that the native libraries of an APK fit devices with pages of 16 KB.

python apk_pages.py APK

A library that is stored must begin at a multiple of 16 KB, and each part that is loaded must be aligned so.
"""

import struct
import sys
import zipfile
from pathlib import Path

PAGE = 1 << 14
LOAD = 1  # type of a program header


def alignments(library: bytes) -> list[int]:
    """The alignments of the loaded parts of an ELF file of 64 bits, little-endian."""
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no ELF file of 64 bits")
    (headers,) = struct.unpack_from("<Q", library, 0x20)
    size, count = struct.unpack_from("<HH", library, 0x36)
    places = [headers + size * i for i in range(count)]
    return [
        struct.unpack_from("<Q", library, p + 48)[0]
        for p in places
        if struct.unpack_from("<I", library, p)[0] == LOAD
    ]


def problems(apk: Path) -> tuple[int, list[str]]:
    """The number of libraries of 64 bits, the only ones that such a device runs, and what does not fit."""
    count = 0
    found = []
    with zipfile.ZipFile(apk) as archive, apk.open("rb") as file:
        for entry in archive.infolist():
            folder, _, name = entry.filename.rpartition("/")
            if not name.endswith(".so") or folder not in ("lib/arm64-v8a", "lib/x86_64"):
                continue
            count += 1
            file.seek(entry.header_offset + 26)
            start = entry.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
            if entry.compress_type == zipfile.ZIP_STORED and start % PAGE:
                found.append(f"{entry.filename} begins at {start}, no multiple of {PAGE}; use zipalign -P 16")
            least = min(alignments(archive.read(entry)))
            if least % PAGE:
                found.append(f"{entry.filename} is aligned to {least} bytes; take a release built for {PAGE}")
    return count, found


if __name__ == "__main__":
    libraries, sentences = problems(Path(sys.argv[1]))
    print(
        f"{sys.argv[1]}: {libraries} native libraries, {len(sentences)} problems with pages of 16 KB",
        *sentences,
        sep="\n",
    )
    sys.exit(bool(sentences))
