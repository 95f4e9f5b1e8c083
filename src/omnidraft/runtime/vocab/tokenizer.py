"""A tokenizer as bytes: every id is a byte string, every byte string has a spelling.

Strings mislead here: a SentencePiece dummy prefix, the GPT-2 byte alphabet and half characters make
different tokens look equal and equal tokens different (method section 2, traps of section 4.5).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import tokenizers

from omnidraft.errors import TokenizerError

Kind = Literal["byte_level", "sentencepiece", "unigram"]

_SPACE = "\u2581"  # SentencePiece's form of a space
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_CONTROL_FORM = re.compile(r"<.*>|\[.*\]", re.DOTALL)
_STRAY_BYTES = re.compile("[\udc80-\udcff]+")  # surrogateescape's form of bytes that are not UTF-8


@dataclass(frozen=True)
class Control:
    """A special token: it never matches by bytes, and plain text never encodes to it."""

    id: int
    content: str
    strips_left: bool
    strips_right: bool


class Tokenizer:
    """A `tokenizer.json`, read as bytes.

    Attributes:
        tokens: bytes of each id; None for control tokens and unused ids.
        controls: control tokens by their content.
    """

    def __init__(self, spec: dict[str, Any], name: str = "tokenizer.json") -> None:
        self.name = name
        self.kind: Kind = _kind(spec, name)
        added = spec.get("added_tokens") or []
        controls = [t for t in added if t.get("special") or _CONTROL_FORM.fullmatch(t["content"])]
        self.controls = {
            t["content"]: Control(t["id"], t["content"], bool(t.get("lstrip")), bool(t.get("rstrip")))
            for t in controls
        }
        self.adds_bos = _leading_special(spec)
        self.tokens = self._read_tokens(spec, added)
        # Only a prompt's template places control tokens. The engine has none: text such as "<s>" stays text.
        plain = {**spec, "added_tokens": [t for t in added if t["content"] not in self.controls]}
        plain |= {"post_processor": None, "truncation": None, "padding": None}
        self._engine = tokenizers.Tokenizer.from_str(json.dumps(plain))
        # The engine renumbers added tokens when some of them are missing: translate its ids back.
        theirs = {self._engine.token_to_id(t["content"]): t["id"] for t in plain["added_tokens"]}
        self._true_ids = {a: b for a, b in theirs.items() if a != b}

    @classmethod
    def from_file(cls, path: str | Path) -> "Tokenizer":
        """Read `tokenizer.json`, or the one inside a directory.

        Raises:
            TokenizerError: the file is absent, not JSON, or of a kind whose bytes cannot be read.
        """
        path = Path(path)
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            spec = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise TokenizerError(
                f"no tokenizer at {file}", "give a tokenizer.json or a directory that holds one"
            ) from None
        except (OSError, ValueError) as error:
            raise TokenizerError(
                f"{file} is not a readable tokenizer.json ({error})", "save it again"
            ) from None
        if not isinstance(spec, dict) or "model" not in spec:
            raise TokenizerError(
                f'{file} is not a tokenizer.json: it has no "model"', "save it again with tokenizers"
            )
        return cls(spec, str(file))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every id's bytes and the control tokens: equal vocabularies, equal fingerprints."""
        digest = hashlib.sha256()
        for token in self.tokens:
            digest.update(b"\xff\xff\xff\xff" if token is None else len(token).to_bytes(4, "little") + token)
        for content in sorted(self.controls, key=lambda c: self.controls[c].id):
            digest.update(f"{self.controls[content].id}:{content}\n".encode())
        return digest.hexdigest()

    @cached_property
    def byte_ids(self) -> dict[int, int]:
        """Id of each single byte; if two ids have it, the `<0xNN>` form, which byte fallback uses."""
        ids = {
            token[0]: i for i, token in reversed(list(enumerate(self.tokens))) if token and len(token) == 1
        }
        for byte in range(256):
            fallback = self._engine.token_to_id(f"<0x{byte:02X}>") if self.kind != "byte_level" else None
            if fallback is not None:
                ids[byte] = fallback
        return ids

    @cached_property
    def _letters(self) -> list[str]:
        return _byte_letters()

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, with the tokenizer's own dummy prefix and normalisation, without bos or eos."""
        ids = self._engine.encode(text, add_special_tokens=False).ids if text else []
        return [self._true_ids.get(i, i) for i in ids] if self._true_ids else list(ids)

    def encode_prompt(self, prefix: str, text: str, suffix: str, *, goes_on: bool = False) -> list[int]:
        """Ids of a prompt: control tokens are read in the template's prefix and suffix, never in the text.

        Args:
            prefix, suffix: of the template.
            text: of the user.
            goes_on: the prompt follows earlier ids, so its first words get no dummy prefix.
        """
        ids: list[int] = []
        plain, strip = "", False
        for run in (*self._split(prefix), text, *self._split(suffix)):
            if isinstance(run, str):
                plain += run
                continue
            plain = plain.lstrip() if strip else plain
            plain = plain.rstrip() if run.strips_left else plain
            ids += [*self._fragment(plain, goes_on and not ids), run.id]
            plain, strip = "", run.strips_right
        return ids + self._fragment(plain.lstrip() if strip else plain, goes_on and not ids)

    def _fragment(self, text: str, goes_on: bool) -> list[int]:
        spelled = self.spell(text.encode()) if goes_on else None
        return self.encode(text) if spelled is None else spelled

    def _split(self, template: str) -> Iterator[str | Control]:
        """The text of a template, split at its control tokens."""
        names = "|".join(re.escape(c) for c in sorted(self.controls, key=len, reverse=True))
        for part in re.split(f"({names})", template) if names else [template]:
            yield self.controls.get(part, part)

    def text_of(self, ids: Sequence[int]) -> bytes:
        """Bytes of ids in order; control tokens are silent."""
        return b"".join(self.tokens[i] or b"" for i in ids if i < len(self.tokens))

    def spell(self, data: bytes) -> list[int] | None:
        """This tokenizer's own tokenization of a fragment: no dummy prefix, no bos, no normalisation.

        Returns None if the vocabulary cannot write exactly these bytes. Method section 2, `spell(t)`.
        """
        ids: list[int] = []
        for part, stray in _segments(data):
            spelled = self._spell_bytes(part) if stray else self._spell_text(part.decode())
            if spelled is None:
                return None
            ids += spelled
        return ids if self.text_of(ids) == data else None

    def _spell_bytes(self, part: bytes) -> list[int] | None:
        if self.kind == "byte_level":
            return self._pieces("".join(self._letters[b] for b in part))
        ids = [self.byte_ids.get(b) for b in part]
        return None if None in ids else [i for i in ids if i is not None]

    def _spell_text(self, text: str) -> list[int] | None:
        if self.kind == "byte_level":
            whole = "".join(self._letters[b] for b in text.encode())
            words = (
                [w for w, _ in self._engine.pre_tokenizer.pre_tokenize_str(text)]
                if self._engine.pre_tokenizer
                else []
            )
            # A pre-tokenizer that adds a prefix space changes the bytes: then the fragment is one word.
            ids = [self._pieces(w) for w in (words if "".join(words) == whole else [whole])]
            return None if None in ids else [i for pieces in ids for i in pieces or []]
        if _SPACE in text:  # U+2581 itself: only bytes can write it, because as a piece it means a space
            parts = [self._spell_text(p) if p else [] for p in text.split(_SPACE)]
            letter = self._spell_bytes(_SPACE.encode())
            if letter is None or None in parts:
                return None
            return [i for n, p in enumerate(parts) for i in ([*letter, *(p or [])] if n else p or [])]
        return self._pieces(text.replace(" ", _SPACE))

    def _pieces(self, word: str) -> list[int]:
        return [piece.id for piece in self._engine.model.tokenize(word)]

    def _read_tokens(self, spec: dict[str, Any], added: list[dict[str, Any]]) -> list[bytes | None]:
        vocab = spec["model"]["vocab"]
        pieces = (
            {i: p[0] for i, p in enumerate(vocab)}
            if isinstance(vocab, list)
            else {i: p for p, i in vocab.items()}
        )
        pieces |= {t["id"]: t["content"] for t in added}
        plain_added = {t["id"] for t in added if t["content"] not in self.controls}
        silent = {c.id for c in self.controls.values()}
        letters = {letter: byte for byte, letter in enumerate(self._letters)}
        tokens: list[bytes | None] = [None] * (max(pieces, default=-1) + 1)
        for i, piece in pieces.items():
            if i in silent:
                continue
            if i in plain_added:
                tokens[i] = piece.encode()
            elif self.kind == "byte_level":
                tokens[i] = bytes(letters[c] for c in piece) if all(c in letters for c in piece) else None
            elif (match := _BYTE_TOKEN.fullmatch(piece)) and spec["model"].get("byte_fallback"):
                tokens[i] = bytes([int(match[1], 16)])
            else:
                tokens[i] = piece.replace(_SPACE, " ").encode()
        return tokens


def _kind(spec: dict[str, Any], name: str) -> Kind:
    model = spec["model"].get("type") or (
        "Unigram" if isinstance(spec["model"].get("vocab"), list) else "BPE"
    )
    shape = json.dumps([spec.get("pre_tokenizer"), spec.get("decoder")])
    if model == "Unigram":
        return "unigram"
    if model == "BPE" and '"ByteLevel"' in shape:
        return "byte_level"
    if model == "BPE" and (
        _SPACE in json.dumps([spec.get("normalizer"), shape], ensure_ascii=False) or "Metaspace" in shape
    ):
        return "sentencepiece"
    raise TokenizerError(
        f"{name} is a {model} tokenizer whose tokens have no exact bytes",
        "use a byte-level BPE, SentencePiece BPE or Unigram tokenizer",
    )


def _leading_special(spec: dict[str, Any]) -> str | None:
    """The control token that the post-processor puts before a text (bos), if any."""
    processor = spec.get("post_processor") or {}
    for part in processor.get("processors", [processor]):
        first = (part.get("single") or [{}])[0]
        if "SpecialToken" in first:
            return str(first["SpecialToken"]["id"])
    return None


def _byte_letters() -> list[str]:
    """The GPT-2 byte alphabet: a printable letter for each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(unprintable)) for b in range(256)]


def _segments(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Cut bytes into runs of whole characters (False) and runs of stray bytes (True)."""
    text = data.decode("utf-8", "surrogateescape")
    at = 0
    for stray in _STRAY_BYTES.finditer(text):
        if stray.start() > at:
            yield text[at : stray.start()].encode(), False
        yield stray[0].encode("utf-8", "surrogateescape"), True
        at = stray.end()
    if at < len(text):
        yield text[at:].encode(), False
