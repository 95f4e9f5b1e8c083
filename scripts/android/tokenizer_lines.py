"""Compile real tokenizers, and write what the package `tokenizers` makes of many lines: a test of a phone
reads both.

    python scripts/android/tokenizer_lines.py DATA FOLDER

DATA holds the task data (`tasks`, `text`, `tokenizers`). FOLDER gets `lines.bin`, and for each tokenizer
`NAME.bin`, the compiled file, and `NAME.ids`. Texts and ids are written as lists: the number of
items in 4 bytes, little-endian, then the items: bytes of UTF-8, or ids of 4 bytes each.
"""

import argparse
import gzip
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from omnidraft.export.tokenizer.compile import compile_tokenizer, sample_texts
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

ROOT = Path(__file__).resolve().parents[2]
STARTERS, REAL = ("a", "b", "drafter"), ("llama2", "llama3", "qwen2", "gpt2", "phi3")
LINES, ROWS = 20_000, 1_000


def rows_of(data: Path) -> Iterator[str]:
    """Every row of the task sets as one text, then every paragraph of the books."""
    for file in sorted((data / "tasks").glob("*/*.gz")):
        for line in gzip.decompress(file.read_bytes()).decode().split("\n"):
            if line:
                yield "\n".join(str(value) for value in json.loads(line).values())
    for file in sorted((data / "text").iterdir()):
        book = file.read_bytes() if file.suffix == ".txt" else gzip.decompress(file.read_bytes())
        yield from book.decode().split("\n\n")


def texts_of(data: Path) -> list[str]:
    """Lines and whole rows, spread over all that there are, and the texts that every export checks."""
    rows = list(rows_of(data))
    lines = [line for row in rows for line in row.split("\n") if line]
    return [*spread(lines, LINES), *spread(rows, ROWS), *sample_texts()]


def spread(texts: list[str], count: int) -> list[str]:
    """This many texts at equal distances."""
    assert len(texts) >= count, f"there are only {len(texts)} texts"
    return [texts[i * len(texts) // count] for i in range(count)]


def listed(items: Iterable[bytes | list[int]]) -> bytes:
    """Lists one after another, each with its length before it."""
    parts = []
    for item in items:
        parts.append(struct.pack("<I", len(item)))
        parts.append(item if isinstance(item, bytes) else struct.pack(f"<{len(item)}I", *item))
    return b"".join(parts)


def write(data: Path, folder: Path) -> None:
    """Write the texts, and for each tokenizer its compiled file and the ids of all texts."""
    texts = texts_of(data)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lines.bin").write_bytes(listed(text.encode() for text in texts))
    places = {f"starter-{name}": ROOT / "examples/starters" / name for name in STARTERS}
    places |= {name: data / "tokenizers" / name for name in REAL}
    for name, place in places.items():
        library = LibraryTokenizer.from_file(place)
        spec = json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))
        (folder / f"{name}.bin").write_bytes(compile_tokenizer(spec, library))
        (folder / f"{name}.ids").write_bytes(listed(library.encode(text) for text in texts))
        print(f"{name}: {len(texts)} texts", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the task data")
    parser.add_argument("folder", type=Path, help="where the files are written")
    given = parser.parse_args()
    write(given.data, given.folder)
