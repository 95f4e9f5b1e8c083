"""Write spec/vectors from the rules of spec/*.md: `python spec/make_vectors.py [DIRECTORY]`.

This script does not import omnidraft. vectorlib/reference is an independent implementation of the rules and
computes what the vectors expect, so a runtime is compared with the rules and not with itself. The script
always writes the same bytes.
"""

import sys
from pathlib import Path

from vectorlib.cases import decoding, device, files, grammar, learning, manifests, packing
from vectorlib.reference.vocab_map import MAPS
from vectorlib.writer import VectorWriter

HERE = Path(__file__).resolve().parent
CASES = (
    *decoding.CASES, *files.CASES, *manifests.CASES, *device.CASES, *packing.CASES, *learning.CASES,
    *grammar.CASES,
)  # fmt: skip


def write_vectors(root: Path) -> dict[str, int]:
    """Write all vectors below a directory and return how many each folder has."""
    writer = VectorWriter(root)
    for name, vocab_map in MAPS.items():
        writer.table(f"maps/{name}.json", vocab_map.as_json())
    for module in CASES:
        module.write(writer)
    return writer.finish()


if __name__ == "__main__":
    counts = write_vectors(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "vectors")
    for folder, count in counts.items():
        print(f"{folder:16} {count:4}")
    print(f"{'together':16} {sum(counts.values()):4}")
