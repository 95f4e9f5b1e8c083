"""Small tokenizers of the kinds that models have, each as a tokenizer.json and as the steps of its file."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from vectorlib.compiled.assembler import (
    Tree,
    alt,
    before,
    before_not,
    next_not,
    one,
    opt,
    plus,
    seq,
    star,
    text,
    upto,
)
from vectorlib.compiled.file import Compiled
from vectorlib.compiled.work import LITERAL, LONGER, at_bounds
from vectorlib.reference.tokenizer import LETTERS, SPACE, byte_level, markup, sentencepiece

WORDS = ["hello", "world", "don't", "100", "snow", "hé", "你好", "  ", "\r\n", "!!"]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_LETTERS, _DIGITS, _SPACES, _SIGNS = one("{L}"), one("{N}"), one("{s}"), one("{sign}")
_SPACE = opt(one(" "))
_ENDS = ("s", "t", "re", "ve", "m", "ll", "d")
_WHITE = (seq(plus(_SPACES), next_not("{S}")), plus(_SPACES))
_GPT2 = alt(
    *(text("'" + end) for end in _ENDS),
    seq(_SPACE, plus(_LETTERS)), seq(_SPACE, plus(_DIGITS)), seq(_SPACE, plus(_SIGNS)), *_WHITE,
)  # fmt: skip


def _both_cases(letters: str) -> Tree:
    """Letters where case is ignored; U+017F is a form of s."""
    forms = {c: c + c.upper() + ("\u017f" if c == "s" else "") for c in letters}
    return seq(one("'"), *(one(forms[c]) for c in letters[1:]))


def _llama3(digits: int) -> Tree:
    newlines = one("{newline}")
    return alt(
        *(_both_cases("'" + end) for end in _ENDS),
        seq(opt(one("{before}")), plus(_LETTERS)), upto(_DIGITS, digits), seq(_SPACE, plus(_SIGNS),
            star(newlines)),
        seq(star(_SPACES), plus(newlines)), *_WHITE,
    )  # fmt: skip


def _added(token: int, content: str, **flags: bool) -> dict[str, Any]:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": token, "content": content, **{name: flags.get(name, False) for name in names}}


def _chains(words: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Merges that build each word from its left end, and from its right end."""
    pairs: dict[tuple[str, str], None] = {}
    for word in words:
        for end in range(1, len(word)):
            pairs.setdefault(("".join(word[:end]), word[end]))
        for start in range(len(word) - 2, 0, -1):
            pairs.setdefault((word[start], "".join(word[start + 1 :])))
    return list(pairs)


def _byte_level(pre_tokenizer: Any, normalizer: Any = None, *, plain: Sequence[dict[str, Any]] = (),
                ignore_merges: bool = False) -> dict[str, Any]:  # fmt: skip
    """256 bytes, merges, a control token and added tokens that a text may hold."""
    words = [[LETTERS[b] for b in word.encode()] for word in chain(WORDS, (" " + w for w in WORDS[:5]))]
    merges = _chains(words)
    pieces = list(dict.fromkeys([*(LETTERS[b] for b in range(256)), *(a + b for a, b in merges)]))
    if ignore_merges:  # pieces that no merge gives
        pieces += ["snowworld", "Ġ100"]
    pieces += [token["content"] for token in plain]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    added = [{**token, "id": vocab[token["content"]]} for token in plain]
    added.append(_added(len(vocab), "<|end|>", special=True))
    model = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
        "vocab": vocab, "merges": [list(pair) for pair in merges],
    }  # fmt: skip
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": decoder, "model": model}  # fmt: skip


def _sentencepiece(
    normalizer: Any, pre_tokenizer: Any, *, fallback: bool = True, fuse: bool = True,
    plain: Sequence[dict[str, Any]] = (), without: Sequence[str] = (), flag: bool = True,
) -> dict[str, Any]:  # fmt: skip
    words = [w.replace(" ", SPACE) for w in chain(WORDS[:7], (" " + w for w in WORDS[:5]), ["   "])]
    merges = _chains([list(word) for word in words])
    letters = dict.fromkeys(c for word in words for c in word)
    pieces = ["<unk>", "<s>", "</s>", *([f"<0x{b:02X}>" for b in range(256)] if fallback else [])]
    pieces += [*letters, *(a + b for a, b in merges), *(token["content"] for token in plain)]
    vocab = {p: i for i, p in enumerate(dict.fromkeys(p for p in pieces if p not in without))}
    model = {
        "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": fuse, "byte_fallback": fallback and flag,
        "ignore_merges": False,
        "vocab": vocab, "merges": [list(pair) for pair in merges],
    }  # fmt: skip
    added = [_added(i, name, special=True) for i, name in enumerate(("<unk>", "<s>", "</s>"))]
    added += [{**token, "id": vocab[token["content"]]} for token in plain]
    decoder = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": decoder, "model": model}  # fmt: skip


def _bytes(*, use_regex: bool = False, prefix: bool = False) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def _sequence(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(nodes)}


def _split(
    pattern: str, behavior: str = "Isolated", *, regex: bool = True, invert: bool = False
) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex" if regex else "String": pattern},
        "behavior": behavior,
        "invert": invert,
    }


_PLAIN = [
    _added(0, "snowman"), _added(0, "X", single_word=True), _added(0, "Q", lstrip=True, rstrip=True),
    _added(0, "Qq", normalized=True),
]  # fmt: skip
# Contents of two letters: a single letter has the id of its byte.
_FLAGGED = [
    _added(0, "tok", single_word=True), _added(0, "Qr", rstrip=True), _added(0, "Ql", lstrip=True),
    _added(0, "\n\n"), _added(0, "~q", normalized=True), _added(0, "~~"),
]  # fmt: skip
_WHITE_TOKENS = [_added(0, "  ", rstrip=True), _added(0, "\t\t")]
CONTROLS = [
    _added(0, "<a>", special=True), _added(0, "<a><b>", special=True), _added(0, "<l>",
        lstrip=True, special=True),
    _added(0, "<r>", rstrip=True, special=True), _added(0, "[F]"),
]  # fmt: skip
# As Gemma 3 has them: tags of HTML and line feeds are text, although a marker of turns looks like them.
HTML = [
    *(_added(0, name) for name in ("<h1>", "</h1>", "<td>", "</td>", "<b>", "[multimodal]", "\n", "\n\n")),
    _added(0, "<turn>", special=True),
]  # fmt: skip
_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def of_tokenize() -> dict[str, Compiled]:
    """The tokenizers of the folders `tokenize` and `template`, which also have a tokenizer.json."""
    first, second = Compiled(byte_level().as_json(), 0), Compiled(sentencepiece().as_json(), 1)
    return {
        "byte_level": first.split(_GPT2).bytes(),
        "markup": Compiled(markup().as_json(), 0).split(_GPT2).bytes(),
        "sentencepiece": second.on_strings(2, SPACE).on_strings(3, " ", SPACE),
    }


def kinds() -> dict[str, Compiled]:
    """All tokenizers by the name of their file."""
    digits = plus(_DIGITS)
    punctuation = {"type": "Punctuation", "behavior": "Contiguous"}
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": True}
    llama2 = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, _REPLACED]}
    three = {
        "type": "Split",
        "pattern": {"Regex": "[0-9][0-9][0-9]"},
        "behavior": "Isolated",
        "invert": False,
    }
    ascii_digit = one("0123456789")
    return {
        "gpt2": Compiled(_byte_level(_bytes(use_regex=True)), 0).split(_GPT2).bytes(),
        "llama3": Compiled(_byte_level(_sequence(_split(LLAMA3), _bytes()), ignore_merges=True), 0)
        .split(_llama3(3)).bytes(),
        "qwen": Compiled(_byte_level(_sequence(_split(LLAMA3.replace("{1,3}", "")), _bytes()),
            {"type": "NFC"}), 0)
        .nfc().split(_llama3(1)).bytes(),
        "starcoder": Compiled(
            _byte_level(_sequence({"type": "Digits", "individual_digits": True}, _bytes(use_regex=True))), 0
        ).split(_DIGITS).split(_GPT2).bytes(),
        "falcon": Compiled(
            _byte_level(_sequence(punctuation, _bytes(use_regex=True),
                                  {"type": "Digits", "individual_digits": False}, three)), 0
        ).split(one("{P}"), 4).split(_GPT2).bytes().split(_DIGITS, 4).split(seq(*[ascii_digit] * 3)),
        "deepseek": Compiled(
            _byte_level(_sequence(_split("[\\r\\n]"), _split("\\s?\\p{L}+"), _split("[一-龥ࠀ-一가-퟿]+"),
                                  {"type": "Digits", "individual_digits": True}, _bytes())), 0
        ).split(one("{newline}")).split(seq(opt(_SPACES), plus(_LETTERS))).split(plus(one("{cjk}")))
        .split(_DIGITS).bytes(),
        "added": Compiled(_byte_level(_bytes(use_regex=True, prefix=True), plain=_PLAIN), 0)
        .on_strings(7, " ").split(_GPT2).bytes(),
        "controls": Compiled(_byte_level(_bytes(use_regex=True), plain=CONTROLS), 0).split(_GPT2).bytes(),
        "removed": Compiled(
            _byte_level(_sequence(_split(" ", "Removed", regex=False), _split("\\p{N}+", "Removed",
                invert=True),
                                  _bytes())), 0
        ).split(one(" "), 0).split(digits, 0, 1).bytes(),
        "llama2": Compiled(_sentencepiece(llama2, None), 1).on_strings(2, SPACE).on_strings(3, " ", SPACE),
        "metaspace": Compiled(_sentencepiece(None, metaspace), 1)
        .on_strings(6, " ", SPACE).on_strings(8, SPACE).split(one(SPACE), 3),
        "gemma": Compiled(_sentencepiece(_REPLACED, _split(SPACE, "MergedWithPrevious", regex=False)), 1)
        .on_strings(3, " ", SPACE).split(one(SPACE), 2),
        "unknown": Compiled(_sentencepiece(llama2, None, fallback=False, fuse=False), 1)
        .on_strings(2, SPACE).on_strings(3, " ", SPACE),
        "fused": Compiled(_sentencepiece(llama2, None, fallback=False), 1)
        .on_strings(2, SPACE).on_strings(3, " ", SPACE),
    }  # fmt: skip


def special_kinds() -> dict[str, Compiled]:
    """Tokenizers that show one rule each, by the name of their file."""
    behind = _split("(?<=[ l])[ow]|(?<![0-9])1")
    single = _split("[0-9]", "Contiguous", invert=True)
    tilde = {"type": "Replace", "pattern": {"String": "~"}, "content": "Q"}
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": True}
    llama2: dict[str, Any] = {
        "type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, _REPLACED],
    }  # fmt: skip
    first = [_added(0, "snowman"), _added(0, "Qq", normalized=True)]
    no_q = {"type": "Replace", "pattern": {"String": "q"}, "content": ""}
    emptied = {"type": "Sequence", "normalizers": [no_q, llama2["normalizers"][0]]}
    letters = {"type": "Replace", "pattern": {"String": "b" * 127}, "content": "b"}
    bounds = {"type": "Sequence", "normalizers": [letters, {**_REPLACED, "content": LONGER}]}
    partial, no_flag = {"without": ["<0xBC>"], "fuse": False}, {"flag": False}
    return {
        "lookbehind": Compiled(_byte_level(_sequence(_split(" ", regex=False), behind, _bytes())), 0)
        .split(one(" "))
        .split(alt(seq(before(" l"), one("ow")), seq(before_not("0123456789"), one("1")))).bytes(),
        "contiguous": Compiled(_byte_level(_sequence(single, _bytes())), 0)
        .split(one("0123456789"), 4, 1).bytes(),
        "flagged": Compiled(_byte_level(_bytes(use_regex=True), tilde, plain=_FLAGGED), 0)
        .on_strings(3, "~", "Q").split(_GPT2).bytes(),
        "first": Compiled(_sentencepiece(None, metaspace, plain=first), 1)
        .on_strings(6, " ", SPACE).on_strings(8, SPACE).split(one(SPACE), 3),
        "first_split": Compiled(_sentencepiece(None, _sequence(_split("o"), metaspace)), 1)
        .split(one("o")).on_strings(6, " ", SPACE).on_strings(8, SPACE).split(one(SPACE), 3),
        "letters": Compiled(_byte_level(_sequence(_bytes(), _split("\u0143", "Removed"))), 0)
        .bytes().split(one("\u0143"), 0),
        # The same matches as "l+o", by a program that has 2^n ways through n letters.
        "nested": Compiled(_byte_level(_sequence(_split("l+o"), _bytes())), 0)
        .split(seq(plus(plus(one("l"))), one("o"))).bytes(),
        "emptied": Compiled(_sentencepiece(emptied, None), 1).on_strings(3, "q", "").on_strings(2, SPACE),
        "html": Compiled(_sentencepiece(_REPLACED, _split(SPACE, "MergedWithPrevious", regex=False),
                                        plain=HTML), 1)
        .on_strings(3, " ", SPACE).split(one(SPACE), 2),
        "spaces": Compiled(_byte_level(_bytes(use_regex=True), plain=_WHITE_TOKENS), 0).split(_GPT2).bytes(),
        "bounds": at_bounds(Compiled(_sentencepiece(bounds, _split(LITERAL, regex=False)), 1)),
    } | {
        name: Compiled(_sentencepiece(llama2, None, **options), 1)
        .on_strings(2, SPACE).on_strings(3, " ", SPACE)
        for name, options in (("partial", partial), ("no_fallback", no_flag))
    }  # fmt: skip
