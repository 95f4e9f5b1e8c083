"""Compile a tokenizer.json: vocabulary, merges, added tokens, normaliser and pre-tokenizer in one file.

The file is written if its ids are those of the package `tokenizers` on a fixed sample.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer import code_points
from omnidraft.export.tokenizer.chain import Chain, add_normaliser, add_pre_tokenizer
from omnidraft.export.tokenizer.tables import TokenizerContents, file_bytes
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.text_steps import LETTERS
from omnidraft.runtime.vocab.tokenizer import Tokenizer, fingerprint
from omnidraft.runtime.vocab.tokenizer_file import read_tokenizer_file
from omnidraft.runtime.vocab.tokenizer_format import AddedFlag, ModelFlag, StepOp, TokenRole
from omnidraft.runtime.vocab.tokenizer_tables import NONE
from omnidraft.sample_prompts import PROMPTS

_BYTE_OF = {letter: byte for byte, letter in enumerate(LETTERS)}
_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def compile_tokenizer(spec: Mapping[str, Any], tokenizer: LibraryTokenizer) -> bytes:
    """The file of a compiled tokenizer.

    Args:
        spec: the parsed tokenizer.json.
        tokenizer: made of it.

    Raises:
        TokenizerError: a part that cannot be compiled; the sentence names it.
    """
    model = spec["model"]
    _check_model(model, tokenizer)
    chain = Chain()
    add_normaliser(chain, spec.get("normalizer"))
    add_pre_tokenizer(chain, spec.get("pre_tokenizer"))
    if (tokenizer.kind == "byte_level") != any(step[0] == StepOp.BYTES for step in chain.steps):
        raise TokenizerError("a byte-level vocabulary without the pre-tokenizer ByteLevel is not supported")
    vocab: dict[str, int] = model["vocab"]
    bos = tokenizer.controls.get(tokenizer.adds_bos or "")
    contents = TokenizerContents(
        fingerprint=tokenizer.fingerprint,
        kind=tokenizer.kind,
        flags=_flags(model),
        unknown_id=NONE if model.get("unk_token") is None else vocab[model["unk_token"]],
        bos_id=NONE if bos is None else bos.id,
        word_class=_word_class(spec, tokenizer, chain),
        added=_added(spec, tokenizer, chain),
        chain=chain,
        pieces=_pieces(spec, tokenizer),
        searched=_searched(vocab, tokenizer),
        merges=_merges(model),
        byte_ids=[tokenizer.byte_ids.get(byte, NONE) for byte in range(256)],
        model_bytes=_model_bytes(vocab, tokenizer),
    )
    return file_bytes(contents)


def _check_model(model: Mapping[str, Any], tokenizer: LibraryTokenizer) -> None:
    if tokenizer.kind == "unigram":
        raise TokenizerError("the model Unigram is not supported")
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise TokenizerError(f"a model with {name} {model[name]!r:.80} is not supported")
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in model["vocab"]:
        raise TokenizerError(f"an unknown token {unknown!r:.80} outside the vocabulary is not supported")
    letters_missing = any(letter not in model["vocab"] for letter in LETTERS)
    if tokenizer.kind == "byte_level" and model.get("byte_fallback") and letters_missing:
        raise TokenizerError("byte fallback in a byte-level vocabulary without all bytes is not supported")


def _flags(model: Mapping[str, Any]) -> int:
    flags = {
        "ignore_merges": ModelFlag.IGNORE_MERGES,
        "byte_fallback": ModelFlag.BYTE_FALLBACK,
        "fuse_unk": ModelFlag.FUSE_UNKNOWN,
    }
    return sum(int(flag) for name, flag in flags.items() if model.get(name))


def _key(piece: str, tokenizer: LibraryTokenizer) -> bytes | None:
    """What a word is compared with; None where no word can be the piece."""
    if tokenizer.kind == "sentencepiece":
        return piece.encode()
    return bytes(_BYTE_OF[c] for c in piece) if all(c in _BYTE_OF for c in piece) else None


def _pieces(spec: Mapping[str, Any], tokenizer: LibraryTokenizer) -> list[tuple[TokenRole, bytes]]:
    """TokenRole and text of each id.

    Raises:
        TokenizerError: an added token is another piece of the model, so one text cannot be both.
    """
    pieces = [(TokenRole.UNUSED, b"")] * len(tokenizer.tokens)
    for piece, token in spec["model"]["vocab"].items():
        key = _key(piece, tokenizer)
        is_byte = tokenizer.kind != "byte_level" and spec["model"].get("byte_fallback")
        role = TokenRole.BYTE if is_byte and _BYTE_TOKEN.fullmatch(piece) else TokenRole.PIECE
        if key is not None:
            pieces[token] = role, key
    for each in spec.get("added_tokens") or []:
        text, token = each["content"].encode(), each["id"]
        if pieces[token][0] is not TokenRole.UNUSED and pieces[token][1] != text:
            raise TokenizerError(
                f"an added token {each['content']!r:.80} with the id of another piece is not supported"
            )
        pieces[token] = (
            (TokenRole.CONTROL if each["content"] in tokenizer.controls else TokenRole.ADDED),
            text,
        )
    return pieces


def _searched(vocab: Mapping[str, int], tokenizer: LibraryTokenizer) -> list[int]:
    """The ids of the model's pieces by ascending text."""
    keys = {token: key for piece, token in vocab.items() if (key := _key(piece, tokenizer)) is not None}
    return sorted(keys, key=keys.__getitem__)


def _merges(model: Mapping[str, Any]) -> dict[tuple[int, int], tuple[int, int]]:
    """Rank and merged id of each pair of ids; of a pair that is listed twice the last rank counts."""
    vocab, merges = model["vocab"], {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merges[vocab[left], vocab[right]] = rank, vocab[left + right]
    return merges


def _model_bytes(vocab: Mapping[str, int], tokenizer: LibraryTokenizer) -> list[int]:
    names = LETTERS if tokenizer.kind == "byte_level" else [f"<0x{byte:02X}>" for byte in range(256)]
    return [vocab.get(name, NONE) for name in names]


def _word_class(spec: Mapping[str, Any], tokenizer: LibraryTokenizer, chain: Chain) -> int:
    """The class of letters of words, where an added token that plain text may hold is a single word."""
    plain = [t for t in spec.get("added_tokens") or [] if t["content"] not in tokenizer.controls]
    return chain.code_class(code_points.word_letters()) if any(t.get("single_word") for t in plain) else NONE


def _added(spec: Mapping[str, Any], tokenizer: LibraryTokenizer, chain: Chain) -> list[tuple[int, int, int]]:
    """(id, flags, string) of each added token; of equal contents in plain text the first."""
    normaliser = tokenizers.Tokenizer.from_str(_without_vocabulary(spec)).normalizer
    names = {"lstrip": AddedFlag.LSTRIP, "rstrip": AddedFlag.RSTRIP, "single_word": AddedFlag.SINGLE_WORD}
    records, seen = [], set()
    for each in spec.get("added_tokens") or []:
        content, control = each["content"], each["content"] in tokenizer.controls
        flags = sum(int(flag) for name, flag in names.items() if each.get(name))
        normalized = bool(each.get("normalized")) and not control
        if normalized and normaliser is not None:
            content = normaliser.normalize_str(content)
        flags |= (AddedFlag.NORMALIZED if normalized else 0) | (AddedFlag.CONTROL if control else 0)
        kind = content, normalized, control
        if content and kind not in seen:
            records.append((each["id"], int(flags), chain.string(content)))
        seen.add(kind)
    return records


def _without_vocabulary(spec: Mapping[str, Any]) -> str:
    model = {"type": "BPE", "vocab": {}, "merges": []}
    return json.dumps(
        {"version": "1.0", "normalizer": spec.get("normalizer"), "model": model, "added_tokens": []}
    )


COMPILED = "tokenizer.bin"
_RANDOM_TEXTS, _SEED = 400, 2
# Parts of the random texts: white space of every kind, contractions, digits, marks, scripts, signs, emoji.
_PARTS = [
    " ", "  ", "\n", "\r\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u200b", "\u2028",
    "\u3000", "\ufeff", "\x00", "don't", "WE'LL", "'S", "\u017f", "Hello", " world", "na\xefve", "\ufb01n",
    "\u0130stanbul", "\u01c5", "stra\xdfe", "1", "23", "4567", "\xb2", "\xbd", "\u0663\u0664", "\u2167",
    "e\u0301", "\u0301", "\u0345\u0323", "\uac00", "\u1100\u1161", "\u4f60\u597d",
    "\u3072\u3089\u304c\u306a", "\u30ab\u30bf", "\u0e44\u0e17\u0e22",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u05e2\u05d1\u05e8\u05d9\u05ea", "\u202e", "!", "...", "://",
    "\u2019", "\u2014", "$", "\u20ac", "_", "\u2581", "<0x41>", "<s>", "<|x|>", "[INST]", "\U0001f600",
    "\U0001f468\u200d\U0001f469", "\U0001d11e", "\U00020000", "\U000e0041", "\uffff", "\U0010fffd",
]  # fmt: skip


def write_compiled(file: Path, tokenizer: LibraryTokenizer) -> str:
    """Compile a tokenizer.json and write the result beside it.

    Returns:
        "" where the compiled tokenizer was written; else why not, as the end of a sentence.
    """
    try:
        data = compile_tokenizer(json.loads(file.read_text(encoding="utf-8")), tokenizer)
        compiled = CompiledTokenizer(read_tokenizer_file(memoryview(data)))
    except TokenizerError as error:
        return error.message
    difference = difference_of(compiled, tokenizer)
    if not difference:
        write_atomically(file.with_name(COMPILED), data, shared=True)
    return difference


def difference_of(compiled: CompiledTokenizer, tokenizer: LibraryTokenizer) -> str:
    """What the two tokenizers disagree about, as the end of a sentence; "" where they agree on the sample."""
    theirs: Tokenizer = tokenizer
    same = (
        list(compiled.tokens) == list(theirs.tokens)
        and dict(compiled.controls) == dict(theirs.controls)
        and compiled.byte_ids == theirs.byte_ids
        and fingerprint(compiled.tokens, compiled.controls.values()) == theirs.fingerprint
    )
    if not same:
        return "the compiled vocabulary is another than that of the package tokenizers"
    for text in sample_texts():
        if compiled.encode(text) != theirs.encode(text):
            return f"the compiled tokenizer and the package tokenizers give other ids for {text!r:.80}"
        if compiled.spell(text.encode()) != theirs.spell(text.encode()):
            return f"the compiled tokenizer and the package tokenizers spell {text!r:.80} with other ids"
    return ""


def sample_texts() -> Iterator[str]:
    """The texts that both tokenizers are compared on: prompts, and random ones, the same every time."""
    yield from PROMPTS
    numbers = random.Random(_SEED)
    for _ in range(_RANDOM_TEXTS):
        parts = [numbers.choice(_PARTS) for _ in range(numbers.randrange(1, 12))]
        parts.append(
            chr(numbers.choice((numbers.randrange(0x20, 0xD800), numbers.randrange(0xE000, 0x110000))))
        )
        yield "".join(parts)
