"""A tokenizer that the package `tokenizers` runs: for exports, training, and what cannot be compiled.

A tokenizer.json comes from outside: whatever its values are, it is read or refused in a sentence, and its
strings and values are counted before it is parsed. The package panics on some regular expressions, and its
normalisers could make any amount of text out of a little.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar

import tokenizers

from omnidraft.errors import TokenizerError, reason
from omnidraft.runtime.disk.read_file import read_file, read_whole
from omnidraft.runtime.vocab.compiled_tokenizer import AddedTokens
from omnidraft.runtime.vocab.text_steps import LETTERS
from omnidraft.runtime.vocab.tokenizer import SPACE, Control, Kind, Tokenizer
from omnidraft.runtime.vocab.tokenizer_format import AddedFlag
from omnidraft.runtime.vocab.tokenizer_tables import AddedToken

T = TypeVar("T")
MAX_FILE_BYTES, MAX_TOKENS, MAX_ID, MAX_MERGES = 40_000_000, 1 << 19, 1 << 20, 1 << 19
# Bytes of a file that begin or end a string, and that end a value. Gemma 3 has 2.7 and 1.3 million, in 33 MB.
MAX_QUOTES, MAX_COMMAS = 3 << 20, 3 << 19
MAX_GROWTH = 1 << 12  # characters that the normalisers may make of one
_GGUF = b"GGUF"  # the first bytes of a model for llama.cpp
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_stderr = Lock()  # the descriptor belongs to the process


class LibraryTokenizer(Tokenizer):
    """A `tokenizer.json`, read as bytes; the package `tokenizers` encodes.

    Args:
        roles: contents of added tokens that are control tokens although they are not `special`, because a
            checkpoint's other files give them a role. The files of a bundle need none.

    Raises:
        TokenizerError: a kind whose bytes cannot be read.
    """

    def __init__(
        self, spec: dict[str, Any], name: str = "tokenizer.json", roles: Collection[str] = ()
    ) -> None:
        self.name = name
        try:
            _check_sizes(spec)
            self._read(spec, roles)
        except TokenizerError:
            raise
        except Exception as error:  # of values of all kinds; the package's exceptions share no narrower base
            raise _unreadable(name, error) from None

    def _read(self, spec: dict[str, Any], roles: Collection[str]) -> None:
        self.kind: Kind = _kind(spec, self.name)
        added = spec.get("added_tokens") or []
        controls = [t for t in added if t.get("special") or t["content"] in roles]
        self.controls = {
            t["content"]: Control(t["id"], t["content"], bool(t.get("lstrip")), bool(t.get("rstrip")))
            for t in controls
        }
        self.adds_bos = _leading_special(spec)
        self.tokens = self._read_tokens(spec, added)
        # Only a prompt's template places control tokens. The engine has none: text such as "<s>" stays text.
        plain = {**spec, "added_tokens": [t for t in added if t["content"] not in self.controls]}
        self._going_on = _going_on(plain["added_tokens"])
        plain |= {"post_processor": None, "truncation": None, "padding": None}
        self._engine = self._run(tokenizers.Tokenizer.from_str, json.dumps(plain))
        # The engine renumbers added tokens when some of them are missing: translate its ids back.
        theirs = {self._engine.token_to_id(t["content"]): t["id"] for t in plain["added_tokens"]}
        self._true_ids = {a: b for a, b in theirs.items() if a != b}

    @classmethod
    def from_file(cls, path: str | Path) -> "LibraryTokenizer":
        """Read `tokenizer.json`, or the one inside a directory.

        Raises:
            TokenizerError: the file is absent, not JSON, or of a kind whose bytes cannot be read.
        """
        path = Path(path)
        file = path / "tokenizer.json" if path.is_dir() else path
        return cls(read_tokenizer_json(file), str(file))

    @cached_property
    def byte_ids(self) -> dict[int, int]:
        ids = {t[0]: i for i, t in reversed(list(enumerate(self.tokens))) if t and len(t) == 1}
        for byte in range(256):
            fallback = self._engine.token_to_id(f"<0x{byte:02X}>") if self.kind != "byte_level" else None
            if fallback is not None:
                ids[byte] = fallback
        return ids

    def encode(self, text: str) -> list[int]:
        ids = self._run(lambda: self._engine.encode(text, add_special_tokens=False).ids) if text else []
        return [self._true_ids.get(i, i) for i in ids] if self._true_ids else list(ids)

    def _parts(self, text: str) -> Iterator[tuple[int, str, int]]:
        return self._going_on.parts(text)

    def _run(self, call: Callable[..., T], *arguments: object, expressions: bool = True) -> T:
        """Call the package; a panic in its regular expressions says nothing on the terminal."""
        try:
            with _without_panics() if expressions else nullcontext():
                return call(*arguments)
        except BaseException as error:
            if not _is_panic(error) and not isinstance(error, Exception):
                raise
            raise _unreadable(self.name, error) from None

    def _spell_bytes(self, part: bytes) -> list[int] | None:
        if self.kind == "byte_level":
            return self._pieces("".join(LETTERS[b] for b in part))
        ids = [self.byte_ids.get(b) for b in part]
        return None if None in ids else [i for i in ids if i is not None]

    def _spell_words(self, text: str) -> list[int]:
        whole = "".join(LETTERS[b] for b in text.encode())
        pre = self._engine.pre_tokenizer
        words = [w for w, _ in self._run(pre.pre_tokenize_str, text)] if pre else []
        # A pre-tokenizer that adds a prefix space changes the bytes: then the fragment is one word.
        return [i for w in (words if "".join(words) == whole else [whole]) for i in self._pieces(w)]

    def _pieces(self, word: str) -> list[int]:
        return [piece.id for piece in self._run(self._engine.model.tokenize, word, expressions=False)]

    def _read_tokens(self, spec: dict[str, Any], added: list[dict[str, Any]]) -> list[bytes | None]:
        vocab = spec["model"]["vocab"]
        named = (
            enumerate(p[0] for p in vocab) if isinstance(vocab, list) else ((i, p) for p, i in vocab.items())
        )
        pieces = dict(named) | {t["id"]: t["content"] for t in added}
        plain_added = {t["id"] for t in added if t["content"] not in self.controls}
        silent = {c.id for c in self.controls.values()}
        letters = {letter: byte for byte, letter in enumerate(LETTERS)}
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
                tokens[i] = piece.replace(SPACE, " ").encode()
        return tokens


def read_tokenizer_json(file: Path) -> dict[str, Any]:
    """The parsed content of a `tokenizer.json`.

    Raises:
        TokenizerError: the file is absent, not JSON, or has no model.
    """
    try:
        if read_file(file, len(_GGUF)) == _GGUF:
            raise TokenizerError(
                f"{file} is a GGUF file", "give the Hugging Face directory that it was made from"
            )
        spec = json.loads(_checked_counts(read_whole(file, MAX_FILE_BYTES)))
    except FileNotFoundError:
        raise TokenizerError(
            f"no tokenizer at {file}", "give a tokenizer.json or a directory that holds one"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(file, error) from None
    if not isinstance(spec, dict) or "model" not in spec:
        raise TokenizerError(
            f'{file} is not a tokenizer.json: it has no "model"', "save it again with tokenizers"
        )
    return spec


def _going_on(added: Sequence[dict[str, Any]]) -> AddedTokens:
    """The plain added tokens that are read in a text which goes on; of equal contents the first."""
    flags = {"lstrip": AddedFlag.LSTRIP, "rstrip": AddedFlag.RSTRIP}
    tokens = [
        AddedToken(t["id"], t["content"], sum(int(flag) for name, flag in flags.items() if t.get(name)))
        for t in reversed(added)
        if t["content"] and not t.get("normalized") and not t.get("single_word")
    ]
    return AddedTokens(tokens)


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


@contextmanager
def _without_panics() -> Iterator[None]:
    """Keep the report of a panic off the terminal; what else is written there follows at the end."""
    with _stderr:
        try:
            terminal = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        panics = False
        with _scratch() as heard:
            os.dup2(heard.fileno(), 2)
            try:
                yield
            except BaseException as error:
                panics = _is_panic(error)
                raise
            finally:
                os.dup2(terminal, 2)
                os.close(terminal)
                if heard.seek(0, os.SEEK_END) and not panics:
                    heard.seek(0)
                    os.write(2, heard.read())


def _scratch() -> IO[bytes]:
    """A file without a name, in memory where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stderr"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _checked_counts(data: bytes) -> str:
    """The text of a file whose strings and values are not too many to be parsed."""
    for mark, most, what in ((b'"', MAX_QUOTES, "ends of strings"), (b",", MAX_COMMAS, "commas")):
        if data.count(mark) > most:
            raise ValueError(f"it has {data.count(mark)} {what}, more than {most}")
    return data.decode("utf-8")


def _unreadable(name: object, error: BaseException) -> TokenizerError:
    return TokenizerError(
        f"{name} is not a readable tokenizer.json ({type(error).__name__}: {reason(error)})",
        "save it again with tokenizers",
    )


def _check_sizes(spec: dict[str, Any]) -> None:
    """Refuse numbers and sizes that no tokenizer has, before anything is made of them."""
    if len(spec["model"].get("merges") or ()) > MAX_MERGES:
        raise ValueError(f"it has {len(spec['model']['merges'])} merges, more than {MAX_MERGES}")
    vocab, added = spec["model"]["vocab"], spec.get("added_tokens") or []
    if len(vocab) + len(added) > MAX_TOKENS:
        raise ValueError(f"it has {len(vocab) + len(added)} tokens, more than {MAX_TOKENS}")
    ids = [*(vocab.values() if isinstance(vocab, dict) else ()), *(token["id"] for token in added)]
    wrong = next((i for i in ids if type(i) is not int or not 0 <= i < MAX_ID), None)
    if wrong is not None:
        raise ValueError(f"id {wrong!r:.40} is not from 0 to {MAX_ID - 1}")
    growth = 1
    for content in _replacements(spec.get("normalizer")):
        growth *= max(1, len(content))
        if growth > MAX_GROWTH:
            raise ValueError(f"its normalisers make more than {MAX_GROWTH} characters of one")


def _replacements(node: object) -> Iterator[str]:
    """What the normalisers write for a match, in their order."""
    if isinstance(node, dict):
        if node.get("type") == "Replace":
            yield str(node.get("content", ""))
        for each in node.get("normalizers") or ():
            yield from _replacements(each)


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
        SPACE in json.dumps([spec.get("normalizer"), shape], ensure_ascii=False) or "Metaspace" in shape
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
