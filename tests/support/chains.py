"""tokenizer.json files with normalisers and pre-tokenizers of many models, over a small trained voc"
"abulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPACE = "\u2581"
TEXTS = [
    "Hello, world! It's 12345 o'clock; we'll see 3.14 and 1,000,000.\n\n\tdef f(x):\n\t\treturn x**2\r\n",
    "Die Straße führt über den Fluß, naïve café, ŝtelo. don't DON'T I'm you're",
    "你好,世界。日本語のテキスト、カタカナ。한국어 텍스트 ไทย हिन्दी עברית العربية ١٢٣",
    "  many   spaces    here \u00a0 and\u3000there\ufeff e\u0301 a\u0308 \U0001f600\U0001f468"
    "\u200d\U0001f469\u200d\U0001f467",
] * 3  # fmt: skip
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|"
    r"'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve"
    r"|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)
_P = pre_tokenizers
_BYTES = _P.ByteLevel(add_prefix_space=False, use_regex=False)


def _split(pattern: str, behavior: str = "isolated", *, invert: bool = False) -> Any:
    return _P.Split(Regex(pattern), behavior, invert)


BYTE_LEVEL: dict[str, Callable[[], Any]] = {
    "cl100k": lambda: [_split(CL100K), _BYTES],
    "o200k": lambda: [_split(O200K), _BYTES],
    "tekken": lambda: [_split(TEKKEN), _BYTES],
    "deepseek": lambda: [
        _split("[\r\n]"), _split("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba]+"),
        _split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), _split("\\s+$"),
        _split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), _P.Digits(individual_digits=True), _BYTES,
    ],
    "deepseek3": lambda: [
        _split("\\p{N}{1,3}"), _split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
        _split(DEEPSEEK3), _BYTES,
    ],
    "falcon": lambda: [
        _P.Punctuation("contiguous"), _P.ByteLevel(add_prefix_space=False),
        _P.Digits(individual_digits=False),
        _split("[0-9][0-9][0-9]"),
    ],
    "starcoder": lambda: [_P.Digits(individual_digits=True), _P.ByteLevel(add_prefix_space=False)],
    "prefix_space": lambda: [_P.ByteLevel(add_prefix_space=True)],
    "words_then_prefix": lambda: [_P.WhitespaceSplit(), _P.ByteLevel(add_prefix_space=True)],
    "whitespace": lambda: [_P.Whitespace(), _BYTES],
    "bloom": lambda: [_split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), _BYTES],
    "previous": lambda: [_P.Split(" ", "merged_with_previous"), _BYTES],
    "next": lambda: [_split("\\p{P}", "merged_with_next"), _BYTES],
    "contiguous": lambda: [_split("\\p{N}", "contiguous"), _BYTES],
    "removed_inverted": lambda: [_split("[\\p{L} ]+", "removed", invert=True), _BYTES],
    "lazy_and_looks": lambda: [_split("(?<!a)b+?(?=c)|^\\w|[^\\W\\d_]{2,4}c|\\d(?!\\d)|\\A.|$^.|.\\z"
    ""), _BYTES],
}  # fmt: skip
SENTENCEPIECE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "llama2": lambda: (
        normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None,
    ),
    "metaspace_first": lambda: (None, _P.Metaspace(prepend_scheme="first", split=False)),
    "metaspace_always": lambda: (None, _P.Metaspace(prepend_scheme="always", split=True)),
    "metaspace_never": lambda: (None, _P.Metaspace(prepend_scheme="never", split=True)),
    "gemma": lambda: (normalizers.Replace(" ", SPACE), _P.Split(" ", "merged_with_previous")),
    "gemma_pieces": lambda: (normalizers.Replace(" ", SPACE), _P.Split(SPACE, "merged_with_previous")),
    "runs": lambda: (
        normalizers.Replace(Regex(" {2,}"), SPACE),
        _P.Metaspace(prepend_scheme="always"),
    ),
}  # fmt: skip
PLAIN = [
    AddedToken("snowman", normalized=False), AddedToken("one", single_word=True, normalized=False),
    AddedToken("le", lstrip=True, rstrip=True, normalized=False), AddedToken("\n\n", normalized=False),
    AddedToken("caf\u00e9", normalized=True), AddedToken("snow", normalized=False),
]  # fmt: skip


def byte_level_chain(name: str, *, added: bool = False, normalizer: Any = None) -> dict[str, Any]:
    """A byte-level tokenizer with a chain of `BYTE_LEVEL`; `added` gives it added tokens that texts hold."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = _P.Sequence(BYTE_LEVEL[name]())
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = _P.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    return _trained(tokenizer, trainer, ["<|end|>"], added=added)


def sentencepiece_chain(name: str, *, added: bool = False) -> dict[str, Any]:
    """A SentencePiece BPE with byte fallback, and normaliser and pre-tokenizer of `SENTENCEPIECE`."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    normaliser, pre_tokenizer = SENTENCEPIECE[name]()
    if normaliser is not None:
        tokenizer.normalizer = normaliser
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    controls = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=controls, show_progress=False)
    spec = _trained(tokenizer, trainer, [], added=added)
    # Byte tokens belong to the model alone.
    spec["added_tokens"] = [t for t in spec["added_tokens"] if not t["content"].startswith("<0x")]
    return spec


def _trained(tokenizer: Tokenizer, trainer: Any, controls: list[str], *, added: bool) -> dict[str, Any]:
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_special_tokens(controls)
    if added:
        tokenizer.add_tokens(PLAIN)
    spec: dict[str, Any] = json.loads(tokenizer.to_str())
    return spec
