"""Print the size of an APK and its numbers of methods; fail unless it holds one bundle, stored as it is.

python apk_sizes.py APK FOLDER PART...

FOLDER holds PART.dex of each part.
"""

import struct
import sys
import zipfile
from pathlib import Path

METHOD_IDS_SIZE = 0x58  # place of the number of method ids in the header of a dex file
MOST_METHODS = 65536


def methods(dex: bytes) -> int:
    """The method ids of a dex file: what the limit of 65,536 counts."""
    return int(struct.unpack_from("<I", dex, METHOD_IDS_SIZE)[0])


def main(apk: Path, folder: Path, parts: list[str]) -> int:
    """Print the figures."""
    print(f"{apk.name}: {apk.stat().st_size:,} bytes")
    with zipfile.ZipFile(apk) as archive:
        bundles = [entry for entry in archive.infolist() if entry.filename.endswith(".zip")]
        dex = archive.read("classes.dex")
    for entry in bundles:
        kind = "compressed" if entry.compress_type else "stored"
        print(f"  {entry.filename}: {entry.file_size:,} bytes, {kind}")
    print(f"  classes.dex: {len(dex):,} bytes, {methods(dex):,} methods of {MOST_METHODS:,}")
    for part in parts:
        alone = (folder / f"{part}.dex").read_bytes()
        print(f"  {part} alone: {len(alone):,} bytes, {methods(alone):,} methods with those that it calls")
    return int(len(bundles) != 1 or bundles[0].compress_type != zipfile.ZIP_STORED)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
