"""The expected ids: the package `tokenizers` runs the tokenizer.json that a file was made of."""

import json
from functools import cached_property

import tokenizers

from vectorlib.compiled.file import Compiled, is_control, tokens_of
from vectorlib.reference.tokenizer import LETTERS, SPACE


class Oracle:
    """A tokenizer whose control tokens are not read in plain text."""

    def __init__(self, compiled: Compiled) -> None:
        plain = [t for t in compiled.spec["added_tokens"] if not is_control(t)]
        self._whole = tokenizers.Tokenizer.from_str(json.dumps(compiled.spec))
        self._engine = tokenizers.Tokenizer.from_str(json.dumps({**compiled.spec, "added_tokens": plain}))
        self._compiled = compiled
        self._controls = {t["content"]: t for t in compiled.controls()}

    @cached_property
    def tokens(self) -> list[bytes | None]:
        """The bytes of each id."""
        return tokens_of(self._compiled)

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(self._engine.encode(text, add_special_tokens=False).ids) if text else []

    def with_controls(self, text: str) -> list[int]:
        """Ids of a text in which control tokens are read."""
        return list(self._whole.encode(text, add_special_tokens=False).ids)

    def spell(self, data: bytes) -> list[int] | None:
        """Ids of a fragment; None if they would not write its bytes."""
        ids: list[int] = []
        for part, stray in _runs(data):
            own = self._stray(part) if stray else self._text(part.decode())
            if own is None:
                return None
            ids += own
        return ids if b"".join(self.tokens[i] or b"" for i in ids) == data else None

    def prompt(self, prefix: str, text: str, suffix: str, *, goes_on: bool) -> list[int]:
        """Ids of a prompt; the templates of the vectors hold control tokens that overlap no other text."""
        runs = [*self._runs(prefix), text, *self._runs(suffix)]
        ids: list[int] = []
        plain = ""
        for run in runs:
            if run in self._controls and run is not text:
                ids += [*self._fragment(plain, goes_on and not ids), self._controls[run]["id"]]
                plain = ""
            else:
                plain += run
        return ids + self._fragment(plain, goes_on and not ids)

    def _fragment(self, text: str, goes_on: bool) -> list[int]:
        own = self._going_on(text) if goes_on else None
        return self.encode(text) if own is None else own

    def _going_on(self, text: str) -> list[int] | None:
        """Ids of a text behind an answer: added tokens where the package finds them, the rest spelled."""
        plain = [t for t in self._compiled.spec["added_tokens"] if not is_control(t)]
        plain = [t for t in plain if not t["normalized"] and not t["single_word"]]
        engine = tokenizers.Tokenizer.from_str(json.dumps({**self._compiled.spec, "added_tokens": plain}))
        found, own = engine.encode(text, add_special_tokens=False), {t["id"] for t in plain}
        ids: list[int] = []
        last = 0
        for token, (start, end) in [*zip(found.ids, found.offsets, strict=True), (None, (len(text), 0))]:
            if token is None or token in own:
                between = self.spell(text[last:start].encode())
                if between is None:
                    return None
                ids, last = [*ids, *between, *([] if token is None else [token])], end
        return ids

    def _runs(self, template: str) -> list[str]:
        for content in self._controls:
            template = template.replace(content, f"\0{content}\0")
        return [run for run in template.split("\0") if run]

    def _text(self, text: str) -> list[int] | None:
        if self._compiled.kind == 0:
            whole = "".join(LETTERS[b] for b in text.encode())
            words = [word for word, _ in self._engine.pre_tokenizer.pre_tokenize_str(text)]
            return [i for word in (words if "".join(words) == whole else [whole]) for i in self._pieces(word)]
        ids: list[int] = []
        for number, part in enumerate(text.split(SPACE)):
            letter = self._stray(SPACE.encode()) if number else []
            if letter is None:
                return None
            ids += [*letter, *self._pieces(part.replace(" ", SPACE))]
        return ids

    def _stray(self, data: bytes) -> list[int] | None:
        if self._compiled.kind == 0:
            return self._pieces("".join(LETTERS[b] for b in data))
        vocab = self._compiled.spec["model"]["vocab"]
        own = [vocab.get(f"<0x{b:02X}>", self._single(b)) for b in data]
        return None if None in own else own

    def _single(self, byte: int) -> int | None:
        return next((i for i, data in enumerate(self.tokens) if data == bytes([byte])), None)

    def _pieces(self, word: str) -> list[int]:
        return [piece.id for piece in self._engine.model.tokenize(word)] if word else []


def _runs(data: bytes) -> list[tuple[bytes, bool]]:
    """Runs of whole characters (False) and runs of stray bytes (True)."""
    runs: list[tuple[bytes, bool]] = []
    for character in data.decode("utf-8", "surrogateescape"):
        stray = "\udc80" <= character <= "\udcff"
        piece = character.encode("utf-8", "surrogateescape")
        if runs and runs[-1][1] == stray:
            runs[-1] = runs[-1][0] + piece, stray
        else:
            runs.append((piece, stray))
    return runs
