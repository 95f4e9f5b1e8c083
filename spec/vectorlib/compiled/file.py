"""The file of a compiled tokenizer, written from a tokenizer.json and given steps: 02-tokenizer.md."""

import hashlib
import string
import struct
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from vectorlib.compiled.assembler import Tree, assemble
from vectorlib.reference.tokenizer import LETTERS, SPACE

WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2003\u2028\u3000"
# Classes hold only these code points, so the files are small; all are older than Unicode 5.
ALPHABET = sorted({
    *map(chr, range(0x180)), *WHITE, *"\u0301\u0327\u0323\u017f\u200b\u2019\u2014\u2581\ufeff\u0663\u2167",
    *"\u4f60\u597d\u3072\u30ab",
    "\uac00", "\u1100", "\u1161", "\u212b", "\U0001f600", "\U0001d11e", "\U00020000",
})  # fmt: skip
NAMED: dict[str, Callable[[str], bool]] = {
    "{L}": lambda c: unicodedata.category(c)[0] == "L",
    "{N}": lambda c: unicodedata.category(c)[0] == "N",
    "{s}": lambda c: c in WHITE,
    "{S}": lambda c: c not in WHITE,
    "{P}": lambda c: unicodedata.category(c)[0] == "P" or c in string.punctuation,
    "{newline}": lambda c: c in "\r\n",
    "{sign}": lambda c: c not in WHITE and unicodedata.category(c)[0] not in "LN",
    "{before}": lambda c: c not in "\r\n" and unicodedata.category(c)[0] not in "LN",
    "{cjk}": lambda c: "\u4e00" <= c <= "\u9fa5" or "\u0800" <= c <= "\u4e00" or "\uac00" <= c <= "\ud7ff",
    "{word}": lambda c: c == "_" or unicodedata.category(c)[0] in "LNM",
    "{nfc}": lambda c: c.isascii() or unicodedata.combining(c) > 0 or unicodedata.normalize("NFD", c) != c
    or c in "\u1100\u1161",
}  # fmt: skip


@dataclass
class Compiled:
    """Steps of a tokenizer, with what they name.

    Attributes:
        spec: the tokenizer.json.
        kind: 0 byte-level, 1 SentencePiece.
        steps: (op, a, b, c).
        strings, programs, classes: that steps name by their index.
    """

    spec: dict[str, Any]
    kind: int
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    programs: list[list[tuple[int, int, int]]] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)

    def nfc(self) -> "Compiled":
        """Append NFC."""
        self.classes.append("{nfc}")
        return self._step(1, len(self.classes) - 1)

    def on_strings(self, op: int, *texts: str) -> "Compiled":
        """Append a step whose arguments are strings."""
        return self._step(op, *(self.string(each) for each in texts))

    def split(self, tree: Tree, behaviour: int = 1, invert: int = 0) -> "Compiled":
        """Append a split; isolated unless another behaviour is given."""
        self.programs.append(assemble(tree, self.classes))
        return self._step(5, len(self.programs) - 1, behaviour, invert)

    def bytes(self) -> "Compiled":
        """Append BYTES."""
        return self._step(9)

    def string(self, text: str) -> int:
        """The index of a string."""
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def _step(self, op: int, a: int = 0, b: int = 0, c: int = 0) -> "Compiled":
        self.steps.append((op, a, b, c))
        return self

    def controls(self) -> list[dict[str, Any]]:
        """The added tokens that are control tokens."""
        return [t for t in self.spec["added_tokens"] if is_control(t)]


def is_control(token: dict[str, Any]) -> bool:
    """Whether an added token is a control token: by its flag, never by its form."""
    return bool(token["special"])


def tokens_of(compiled: Compiled) -> list[bytes | None]:
    """The bytes of each id."""
    return [_written(role, text, compiled.kind) for role, text in _pieces(compiled)]


def fingerprint_of(compiled: Compiled) -> str:
    """The fingerprint of the vocabulary: 03-bundle.md."""
    digest = hashlib.sha256()
    for token in tokens_of(compiled):
        digest.update(b"\xff" * 4 if token is None else struct.pack("<I", len(token)) + token)
    for control in sorted(compiled.controls(), key=lambda t: int(t["id"])):
        digest.update(f"{control['id']}:{control['content']}\n".encode())
    return digest.hexdigest()


def write(compiled: Compiled) -> bytes:
    """The bytes of the file."""
    vocab, model = compiled.spec["model"]["vocab"], compiled.spec["model"]
    added = [_added(compiled, t) for t in compiled.spec["added_tokens"]]
    needs_words = any(t["single_word"] for t in compiled.spec["added_tokens"])
    if needs_words and "{word}" not in compiled.classes:
        compiled.classes.append("{word}")
    pieces = _pieces(compiled)
    sections = _sections(compiled, pieces, added)
    start, table = 80 + 8 * len(sections), []
    for data in sections:
        table += [start, len(data)]
        start += len(data) + -len(data) % 8
    flags = sum(
        1 << n for n, name in enumerate(("ignore_merges", "byte_fallback", "fuse_unk")) if model[name]
    )
    unknown, bos = model["unk_token"], vocab.get("<s>", -1)
    header = struct.pack(
        "<8sII32sIIIiiiII", b"ODTOKENS", 1, len(sections), bytes.fromhex(fingerprint_of(compiled)),
            len(pieces),
        compiled.kind, flags, -1 if unknown is None else vocab[unknown], bos,
        compiled.classes.index("{word}") if needs_words else -1, len(compiled.classes), 0,
    )  # fmt: skip
    return (
        header + struct.pack(f"<{len(table)}I", *table) + b"".join(d + bytes(-len(d) % 8) for d in sections)
    )


def _sections(
    compiled: Compiled, pieces: list[tuple[int, bytes]], added: Sequence[tuple[int, int, int]]
) -> list[bytes]:
    vocab, model = compiled.spec["model"]["vocab"], compiled.spec["model"]
    merges = sorted(
        (vocab[a] << 32 | vocab[b], rank, vocab[a + b]) for rank, (a, b) in enumerate(model["merges"])
    )
    known = sorted(vocab.values(), key=lambda i: pieces[i][1])
    names = [LETTERS[b] for b in range(256)] if compiled.kind == 0 else [f"<0x{b:02X}>" for b in range(256)]
    own = [vocab.get(name, -1) for name in names]
    texts, strings = [text for _, text in pieces], [each.encode() for each in compiled.strings]
    ranges, masks = _ranges(compiled.classes)
    starts = accumulate((len(p) for p in compiled.programs), initial=0)
    places = [each for start, p in zip(starts, compiled.programs, strict=False) for each in (start, len(p))]
    return [
        _u32([0, *accumulate(map(len, texts))]), b"".join(texts), bytes(role for role, _ in pieces),
            _u32(known),
        b"".join(struct.pack("<Q", key) for key, _, _ in merges), _u32([n for m in merges for n in m[1:]]),
        b"".join(struct.pack("<i", i) for i in _byte_ids(compiled, own)),
        b"".join(struct.pack("<i", i) for i in own),
        _u32([0, *accumulate(map(len, strings))]), b"".join(strings),
        _u32([n for record in added for n in record]), _u32(ranges),
        b"".join(struct.pack("<Q", mask) for mask in masks),
        _u32([n for program in compiled.programs for instruction in program for n in instruction]),
        _u32(places), _u32([n for step in compiled.steps for n in step]),
    ]  # fmt: skip


def _byte_ids(compiled: Compiled, own: list[int]) -> list[int]:
    """The byte token of each byte, else the lowest id that writes the byte alone."""
    ids = [-1] * 256
    for token, data in reversed(list(enumerate(tokens_of(compiled)))):
        if data is not None and len(data) == 1:
            ids[data[0]] = token
    return [mine if compiled.kind == 1 and mine >= 0 else other for mine, other in zip(own, ids, strict=True)]


def _u32(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _added(compiled: Compiled, token: dict[str, Any]) -> tuple[int, int, int]:
    names = ("lstrip", "rstrip", "normalized", "single_word")
    flags = int(is_control(token)) + sum(2 << n for n, name in enumerate(names) if token[name])
    content = _normalised(compiled, token["content"]) if token["normalized"] else token["content"]
    return token["id"], flags, compiled.string(content)


def _normalised(compiled: Compiled, content: str) -> str:
    """A content after those steps of the normaliser that replace strings."""
    for op, a, b, _ in compiled.steps:
        content = content.replace(compiled.strings[a], compiled.strings[b]) if op == 3 else content
    return content


def _pieces(compiled: Compiled) -> list[tuple[int, bytes]]:
    """Role and text of each id."""
    vocab = compiled.spec["model"]["vocab"]
    byte_of = {letter: byte for byte, letter in LETTERS.items()}
    pieces = [(0, b"")] * (max([*vocab.values(), *(t["id"] for t in compiled.spec["added_tokens"])]) + 1)
    added = {t["id"] for t in compiled.spec["added_tokens"]}
    for piece, i in vocab.items():
        if i in added:
            continue  # written below
        if compiled.kind == 0:
            pieces[i] = (1, bytes(byte_of[letter] for letter in piece))
        else:
            is_byte = piece.startswith("<0x") and compiled.spec["model"]["byte_fallback"]
            pieces[i] = (2 if is_byte else 1, piece.encode())
    for token in compiled.spec["added_tokens"]:
        pieces[token["id"]] = (3 if is_control(token) else 4, token["content"].encode())
    return pieces


def _written(role: int, text: bytes, kind: int) -> bytes | None:
    if role in (0, 3):
        return None
    if role == 2:
        return bytes([int(text[3:5], 16)])
    return text.replace(SPACE.encode(), b" ") if role == 1 and kind == 1 else text


def _ranges(classes: list[str]) -> tuple[list[int], list[int]]:
    """Ranges of code points, and the classes of each: one bit for each class."""
    masks = {ord(c): sum(1 << n for n, name in enumerate(classes) if _holds(name, c)) for c in ALPHABET}
    edges = sorted({0, *masks, *(c + 1 for c in masks)})
    values = [masks.get(edge, 0) for edge in edges]
    kept = [0, *(at for at, (a, b) in enumerate(pairwise(values), 1) if a != b)]
    return [edges[at] for at in kept], [values[at] for at in kept]


def _holds(name: str, character: str) -> bool:
    if name in NAMED:
        return NAMED[name](character)
    return character in name
