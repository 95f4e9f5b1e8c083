"""A tokenizer as bytes: every id is a byte string, every byte string has a spelling (spec/01-tokens.md).

Strings mislead here: a SentencePiece dummy prefix, the GPT-2 byte alphabet and half characters make
different tokens look equal and equal tokens different (method section 2, traps of section 4.5).
`CompiledTokenizer` reads the file of a bundle, `LibraryTokenizer` reads a tokenizer.json.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["byte_level", "sentencepiece", "unigram"]

SPACE = "\u2581"  # SentencePiece's form of a space
# Unicode's White_Space, unchanged since Unicode 6.3; str.strip() alone would take U+001C to U+001F, too.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_STRAY_BYTES = re.compile("[\udc80-\udcff]+")  # surrogateescape's form of bytes that are not UTF-8


@dataclass(frozen=True)
class Control:
    """A control token: it never matches by bytes, and plain text never encodes to it.

    It is an added token that is `special` or has a role; all other added tokens are text (spec/01-tokens.md).
    """

    id: int
    content: str
    strips_left: bool
    strips_right: bool


class Tokenizer(ABC):
    """A tokenizer, read as bytes.

    Attributes:
        tokens: bytes of each id; None for control tokens and unused ids.
        adds_bos: content of the control token that begins a text; None for none.
    """

    name: str
    kind: Kind
    tokens: Sequence[bytes | None]
    controls: Mapping[str, Control]
    adds_bos: str | None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def most_bytes(self) -> int:
        """The most bytes of plain text that one id stands for; 0 where no such bound is known.

        White space at both ends of a text does not count, nor do the bytes in `unwritten`.
        """
        return 0

    @property
    def unwritten(self) -> bytes:
        """Bytes that a byte-level vocabulary has no token for."""
        return b""

    @property
    @abstractmethod
    def byte_ids(self) -> Mapping[int, int]:
        """Id of each single byte; if two ids have it, the `<0xNN>` form, which byte fallback uses."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids of plain text, with the tokenizer's own dummy prefix and normalisation, without bos or eos."""

    @abstractmethod
    def _spell_words(self, text: str) -> list[int]:
        """Ids of a text of whole characters in a byte-level vocabulary, not normalised."""

    @abstractmethod
    def _spell_bytes(self, part: bytes) -> list[int] | None:
        """Ids of stray bytes; None if the vocabulary cannot write them."""

    @abstractmethod
    def _pieces(self, word: str) -> list[int]:
        """Ids of a word of the model, in which U+2581 is a space."""

    @abstractmethod
    def _parts(self, text: str) -> Iterator[tuple[int, str, int]]:
        """Plain added tokens of a text that goes on, and the text between: (start, text, id), -1 for text."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every id's bytes and the control tokens: equal vocabularies, equal fingerprints."""
        return fingerprint(self.tokens, self.controls.values())

    def encode_prompt(self, *parts: str, goes_on: bool = False) -> list[int]:
        """Ids of a prompt: control tokens are read in the template's strings, never in the texts between.

        Args:
            parts: a string of the template, a text, a string of the template, and so on; an odd number.
            goes_on: the prompt follows earlier ids, so its first words get no dummy prefix.
        """
        ids: list[int] = []
        plain, strip = "", False
        for run in self._runs(parts):
            if isinstance(run, str):
                plain += run
                continue
            plain = plain.lstrip(WHITE_SPACE) if strip else plain
            plain = plain.rstrip(WHITE_SPACE) if run.strips_left else plain
            ids += [*self._fragment(plain, goes_on and not ids), run.id]
            plain, strip = "", run.strips_right
        return ids + self._fragment(plain.lstrip(WHITE_SPACE) if strip else plain, goes_on and not ids)

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

    def _fragment(self, text: str, goes_on: bool) -> list[int]:
        going_on = self._going_on_ids(text) if goes_on else None
        return self.encode(text) if going_on is None else going_on

    def _going_on_ids(self, text: str) -> list[int] | None:
        """Ids of a text behind an answer: its plain added tokens, and the text between them spelled."""
        ids: list[int] = []
        for _, part, token in self._parts(text):
            own = self.spell(part.encode()) if token < 0 else [token]
            if own is None:
                return None
            ids += own
        return ids

    def _runs(self, parts: Sequence[str]) -> Iterator[str | Control]:
        """The runs of text and the control tokens of a prompt; every second part is a text."""
        for number, part in enumerate(parts):
            if number % 2:
                yield part
            else:
                yield from self._split(part)

    def _split(self, template: str) -> Iterator[str | Control]:
        """The text of a template, split at its control tokens."""
        last = 0
        for start, end, content in self._control_finder.find(template):
            yield template[last:start]
            yield self.controls[content]
            last = end
        yield template[last:]

    @cached_property
    def _control_finder(self) -> "ContentFinder":
        return ContentFinder(self.controls)

    def _spell_text(self, text: str) -> list[int] | None:
        if self.kind == "byte_level":
            return self._spell_words(text)
        # U+2581 itself: only bytes can write it, because as a piece it means a space.
        letter = self._spell_bytes(SPACE.encode()) if SPACE in text else []
        if letter is None:
            return None
        ids: list[int] = []
        for number, part in enumerate(text.split(SPACE)):
            ids += letter if number else []
            ids += self._pieces(part.replace(" ", SPACE)) if part else []
        return ids


class ContentFinder:
    """Finds the contents of added tokens in a text: leftmost first, the longest of those that begin there."""

    def __init__(self, contents: Iterable[str]) -> None:
        self._children: list[dict[str, int]] = [{}]  # of each node of a trie; node 0 is the root
        self._ends: set[int] = set()
        for content in contents:
            node = 0
            for character in content:
                node = self._children[node].setdefault(character, len(self._children))
                if node == len(self._children):
                    self._children.append({})
            self._ends.add(node)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """(start, end, content) of each match; none overlaps the one before it."""
        start = 0
        while start < len(text):
            end = self._longest(text, start)
            if end > start:
                yield start, end, text[start:end]
            start = max(end, start + 1)

    def _longest(self, text: str, start: int) -> int:
        """The end of the longest content that begins at `start`; `start` if none does."""
        node, longest = 0, start
        for at in range(start, len(text)):
            child = self._children[node].get(text[at])
            if child is None:
                break
            node = child
            longest = at + 1 if node in self._ends else longest
        return longest


def fingerprint(tokens: Iterable[bytes | None], controls: Iterable[Control]) -> str:
    """SHA-256 of a vocabulary: spec/01-tokens.md has the bytes."""
    digest = hashlib.sha256()
    for token in tokens:
        digest.update(b"\xff\xff\xff\xff" if token is None else len(token).to_bytes(4, "little") + token)
    for control in sorted(controls, key=lambda each: each.id):
        digest.update(f"{control.id}:{control.content}\n".encode())
    return digest.hexdigest()


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
