"""Small tokenizers of each kind that can be read as bytes, made with the tokenizers library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

SPACE = "\u2581"
Merge = tuple[str, str]

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [b for b in range(256) if b not in _PRINTABLE]
LETTERS = {
    **{b: chr(b) for b in _PRINTABLE},
    **{b: chr(256 + n) for n, b in enumerate(_OTHERS)},
}  # the GPT-2 byte alphabet, written independently of src


def letters(data: bytes) -> str:
    """Bytes in the alphabet of a byte-level vocabulary."""
    return "".join(LETTERS[b] for b in data)


def byte_level(
    merges: Sequence[tuple[bytes, bytes]] = (),
    *,
    controls: Sequence[str] = (),
    added: Sequence[str] = (),
) -> dict[str, Any]:
    """A byte-level BPE: 256 bytes, a token for each merge, control tokens, then added plain tokens."""
    pairs = [(letters(a), letters(b)) for a, b in merges]
    pieces = dict.fromkeys([LETTERS[b] for b in range(256)] + [a + b for a, b in pairs])
    tokenizer = tokenizers.Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(controls))
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in added])
    return _spec(tokenizer)


def sentencepiece(merges: Sequence[Merge], *, bos: str | None = "<s>") -> dict[str, Any]:
    """A SentencePiece BPE like that of Llama-2, with byte fallback and a dummy prefix."""
    controls = ["<unk>", "<s>", "</s>"]
    letters = dict.fromkeys(c for pair in merges for part in pair for c in part)
    pieces = [*controls, *(f"<0x{b:02X}>" for b in range(256)), *letters]
    pieces = list(dict.fromkeys([*pieces, *(a + b for a, b in merges)]))
    vocab = {p: i for i, p in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(
        models.BPE(vocab, list(merges), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback()])
    tokenizer.add_special_tokens(list(controls))
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocab[bos])]
        )
    return _spec(tokenizer)


def unigram(pieces: Sequence[str]) -> dict[str, Any]:
    """A Unigram without byte fallback, like that of T5; earlier pieces are likelier."""
    controls = ["<pad>", "</s>", "<unk>"]
    scored = [(p, 0.0) for p in controls] + [(p, -1.0 - n) for n, p in enumerate(pieces)]
    tokenizer = tokenizers.Tokenizer(models.Unigram(scored, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(list(controls))
    return _spec(tokenizer)


def _spec(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(tokenizer.to_str())
    return spec
