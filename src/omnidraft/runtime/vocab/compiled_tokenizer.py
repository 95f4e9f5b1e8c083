"""A compiled tokenizer: it reads a mapped file and needs no regular expressions (spec/02-tokenizer.md)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np

from omnidraft.runtime.vocab.merge_table import MergeTable
from omnidraft.runtime.vocab.text_steps import LETTERS, NFC_SHRINKS, ClassMasks, may_lose, normalise, words_of
from omnidraft.runtime.vocab.tokenizer import SPACE, WHITE_SPACE, ContentFinder, Control, Kind, Tokenizer
from omnidraft.runtime.vocab.tokenizer_file import open_tokenizer_file
from omnidraft.runtime.vocab.tokenizer_format import AddedFlag, ModelFlag, StepOp, TokenRole
from omnidraft.runtime.vocab.tokenizer_tables import NONE, NORMALISERS, AddedToken, TokenizerTables

_MOST_CACHED = 1 << 13  # words
_LONGEST_CACHED = 64  # characters of a word
_BYTE_OF = {letter: byte for byte, letter in enumerate(LETTERS)}
_KINDS: dict[str, Kind] = {"byte_level": "byte_level", "sentencepiece": "sentencepiece"}


class TokenBytes(Sequence[bytes | None]):
    """The bytes of each id, read from the file when they are asked for."""

    def __init__(self, tables: TokenizerTables) -> None:
        self._tables, self._pieces_have_spaces = tables, tables.kind == "sentencepiece"

    def __len__(self) -> int:
        return len(self._tables.roles)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        token = index + len(self) if index < 0 else index
        role = self._tables.roles[token]
        if role in (TokenRole.UNUSED, TokenRole.CONTROL):
            return None
        text = self._tables.text_of(token)
        if role == TokenRole.BYTE:
            return bytes([int(text[3:5], 16)])
        return (
            text.replace(_SPACE_BYTES, b" ") if role == TokenRole.PIECE and self._pieces_have_spaces else text
        )


_SPACE_BYTES = SPACE.encode()


class CompiledTokenizer(Tokenizer):
    """A tokenizer on the checked tables of a file."""

    def __init__(self, tables: TokenizerTables, name: str = "tokenizer.bin") -> None:
        self.name = name
        self.kind = _KINDS[tables.kind]
        self.tokens = TokenBytes(tables)
        self.controls = {t.content: _control(t) for t in tables.added if t.flags & AddedFlag.CONTROL}
        by_id = {control.id: content for content, control in self.controls.items()}
        self.adds_bos = by_id.get(tables.bos_id)
        self._tables = tables
        self._masks = ClassMasks(tables.ranges, tables.masks)
        self._merges = MergeTable(tables.merge_keys, tables.merge_values)
        self._cached: dict[str, list[int]] = {}
        self._character_ids = CharacterIds(self)
        plain = [t for t in tables.added if not t.flags & AddedFlag.CONTROL]
        self._raw = AddedTokens([t for t in plain if not t.flags & AddedFlag.NORMALIZED], self._is_word)
        self._normalized = AddedTokens([t for t in plain if t.flags & AddedFlag.NORMALIZED], self._is_word)
        other = AddedFlag.NORMALIZED | AddedFlag.SINGLE_WORD
        self._going_on = AddedTokens([t for t in plain if not t.flags & other])

    @classmethod
    def from_file(cls, path: Path) -> "CompiledTokenizer":
        """Map a file."""
        return cls(open_tokenizer_file(path), str(path))

    @property
    def fingerprint(self) -> str:
        return self._tables.fingerprint

    @cached_property
    def most_bytes(self) -> int:
        tables, added = self._tables, self._tables.added
        loses = any(may_lose(step) for step in tables.steps)
        if self.kind == "byte_level":  # a normaliser could make such bytes out of others
            drops = bool(self.unwritten) and any(step.op in NORMALISERS for step in tables.steps)
        else:
            drops = NONE in tables.model_bytes or not tables.flags & ModelFlag.BYTE_FALLBACK
        strips = any(
            t.flags & (AddedFlag.LSTRIP | AddedFlag.RSTRIP) for t in added if not t.flags & AddedFlag.CONTROL
        )
        if loses or drops or strips:
            return 0
        longest = max(
            int(np.diff(tables.offsets).max(initial=0)), *(len(t.content.encode()) for t in added), 0
        )
        return longest * (NFC_SHRINKS if any(step.op is StepOp.NFC for step in tables.steps) else 1)

    @cached_property
    def unwritten(self) -> bytes:
        pieces = self._tables.model_bytes if self.kind == "byte_level" else ()
        return bytes(byte for byte, token in enumerate(pieces) if token == NONE)

    @cached_property
    def byte_ids(self) -> dict[int, int]:
        return {byte: token for byte, token in enumerate(self._tables.byte_ids) if token != NONE}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        steps = self._tables.steps
        for start, part, token in self._raw.parts(text):
            if token != NONE:
                ids.append(token)
                continue
            normal = normalise(steps, self._masks, part)
            for inner, rest, added in self._normalized.parts(normal):
                if added != NONE:
                    ids.append(added)
                    continue
                for word in words_of(steps, self._masks, rest, at_start=start == 0 and inner == 0):
                    ids += self._pieces(word)
        return ids

    def _parts(self, text: str) -> Iterator[tuple[int, str, int]]:
        return self._going_on.parts(text)

    def _spell_words(self, text: str) -> list[int]:
        whole = "".join([LETTERS[byte] for byte in text.encode()])
        words = words_of(self._tables.steps, self._masks, text, at_start=True)
        # A pre-tokenizer that adds a prefix space changes the bytes: then the fragment is one word.
        return [i for word in (words if "".join(words) == whole else [whole]) for i in self._pieces(word)]

    def _spell_bytes(self, part: bytes) -> list[int] | None:
        if self.kind == "byte_level":
            return self._pieces("".join([LETTERS[byte] for byte in part]))
        ids = [self._tables.byte_ids[byte] for byte in part]
        return None if NONE in ids else ids

    def _pieces(self, word: str) -> list[int]:
        ids = self._cached.get(word)
        if ids is None:
            ids = self._merged(word)
            if len(word) <= _LONGEST_CACHED:
                if len(self._cached) >= _MOST_CACHED:
                    self._cached.clear()
                self._cached[word] = ids
        return ids

    def _merged(self, word: str) -> list[int]:
        """Ids of a word: the word itself where merges are ignored, else its symbols, merged."""
        data = self._data_of(word)
        if self._tables.flags & ModelFlag.IGNORE_MERGES and data is not None:
            token = self.piece_id(data)
            if token != NONE:
                return [token]
        byte_level = self.kind == "byte_level"
        symbols = self._letter_symbols(word) if byte_level else self._character_symbols(word)
        return self._merges.merge(symbols)

    def _data_of(self, word: str) -> bytes | None:
        """The bytes that a word stands for; None where steps behind BYTES put something else into it."""
        if self.kind != "byte_level":
            return word.encode()
        data = [_BYTE_OF.get(letter, NONE) for letter in word]
        return None if NONE in data else bytes(data)

    def _letter_symbols(self, word: str) -> list[int]:
        pieces = self._tables.model_bytes
        data = (_BYTE_OF.get(letter, NONE) for letter in word)
        return self._symbols((NONE if byte == NONE else pieces[byte], ()) for byte in data)

    def _character_symbols(self, word: str) -> list[int]:
        known = self._character_ids
        return self._symbols((known[character], character.encode()) for character in word)

    def _symbols(self, characters: Iterable[tuple[int, Sequence[int]]]) -> list[int]:
        """The symbols that merging begins with.

        Args:
            characters: the piece of each character, and the bytes that byte fallback may write it with.
        """
        symbols: list[int] = []
        unknown, flags = self._tables.unknown_id, self._tables.flags
        waits = (
            False  # an unknown token comes before the next piece, but behind byte tokens, as in the library
        )
        for token, data in characters:
            fallback = [self._tables.model_bytes[byte] for byte in data] if token == NONE else []
            if token != NONE:
                symbols += [unknown, token] if waits else [token]
                waits = False
            elif flags & ModelFlag.BYTE_FALLBACK and fallback and NONE not in fallback:
                symbols += fallback
            elif unknown != NONE:
                symbols += [unknown] if waits and not flags & ModelFlag.FUSE_UNKNOWN else []
                waits = True
        return [*symbols, unknown] if waits else symbols

    def _is_word(self, character: str) -> bool:
        return self._tables.word_class != NONE and bool(self._masks[character] >> self._tables.word_class & 1)

    def piece_id(self, data: bytes) -> int:
        """The id of a piece of the model by its text; binary search."""
        ids, low, high = self._tables.sorted_ids, 0, len(self._tables.sorted_ids)
        most = len(data) + 1  # a piece may be very long, and its beginning decides
        while low < high:
            middle = (low + high) // 2
            if self._tables.text_of(ids[middle], most) < data:
                low = middle + 1
            else:
                high = middle
        return ids[low] if low < len(ids) and self._tables.text_of(ids[low], most) == data else NONE


class CharacterIds(dict[str, int]):
    """The piece of each character alone, looked up in the file and kept for a while."""

    def __init__(self, tokenizer: CompiledTokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, character: str) -> int:
        if len(self) >= _MOST_CACHED:
            self.clear()
        self[character] = token = self._tokenizer.piece_id(character.encode())
        return token


class AddedTokens:
    """Added tokens that are read in plain text.

    Args:
        is_word: whether a character belongs to a word; asked for tokens that are single words alone.
    """

    def __init__(
        self, tokens: Sequence[AddedToken], is_word: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._by_content = {token.content: token for token in tokens}
        self._finder, self._is_word = ContentFinder(self._by_content), is_word

    def parts(self, text: str) -> Iterator[tuple[int, str, int]]:
        """Added tokens and the text between them, in order: (start, text, id); NONE marks text."""
        last = space = 0  # space: up to there all is white space behind a token with RSTRIP
        for start, end, content in self._finder.find(text) if self._by_content else ():
            token = self._by_content[content]
            if token.flags & AddedFlag.SINGLE_WORD and self._inside_word(text, start, end):
                continue
            if token.flags & AddedFlag.LSTRIP:
                start = last + len(text[last:start].rstrip(WHITE_SPACE))
            if token.flags & AddedFlag.RSTRIP:
                end = space = _behind_space(text, end) if end > space else space
            if last < start:
                yield last, text[last:start], NONE
            yield start, content, token.id
            last = end
        if last < len(text):
            yield last, text[last:], NONE

    def _inside_word(self, text: str, start: int, end: int) -> bool:
        before = start > 0 and self._is_word(text[start - 1])
        return before or (end < len(text) and self._is_word(text[end]))


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in WHITE_SPACE:
        at += 1
    return at


def _control(token: AddedToken) -> Control:
    return Control(
        token.id, token.content, bool(token.flags & AddedFlag.LSTRIP), bool(token.flags & AddedFlag.RSTRIP)
    )
