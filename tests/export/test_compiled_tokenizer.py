"""A compiled tokenizer gives the ids of the package `tokenizers`, for any text and many tokenizers."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer.compile import COMPILED, compile_tokenizer, difference_of, write_compiled
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer_file import read_tokenizer_file
from support.chains import BYTE_LEVEL, SENTENCEPIECE, SPACE, byte_level_chain, sentencepiece_chain
from support.places import ROOT, STARTERS
from support.tiny_tokenizers import unigram

REAL = ["llama2", "phi3", "llama3", "qwen2", "gpt2"]
Both = tuple[CompiledTokenizer, LibraryTokenizer]

# Texts of all planes, with what tokenizers treat in their own ways.
SPECIAL = [
    " ", "  ", "\n", "\r\n", "\n\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u200b",
    "\u200d", "\u2028", "\u3000", "\ufeff", "\x00", "'s", "'LL", "\u017f", "\u2019t", "don't", "snowman",
    "one", "le", "caf\xe9", "cafe\u0301", "0", "12", "345", "\xb2", "\xbd", "\u0663", "\u2167", "\u0301",
    "\u0345", "\u0323", "\u0898", "\u1715", "\u1100\u1161\u11a8", "\uac00", "\u4f60\u597d", "\u3042",
    "\u30ab", "\u0e01\u0e33", "\u0915\u094d", "\u05d0", "\u202e", "!", "...", "_", "\u2014", "\u20ac",
    "\u2581", "<0x41>", "<s>", "</s>", "<|end|>", "<|im_end|>", "<|endoftext|>", "[INST]", "\u01c5", "\xdf",
    "\ufb01", "\u0130", "\U0001f600", "\U0001f468\u200d\U0001f469", "\U00020000", "\U0001d7d8",
    "\U000e0041", "\U0010fffd", "abc", " Hello",
]  # fmt: skip
PARTS = st.one_of(
    st.sampled_from(SPECIAL),
    st.characters(exclude_categories=["Cs"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.text("abc'.1 2\n", max_size=8),
)
ANY_TEXT = st.lists(PARTS, max_size=12).map("".join)


def both_of(spec: dict[str, Any]) -> Both:
    library = LibraryTokenizer(spec)
    data = compile_tokenizer(spec, library)
    return CompiledTokenizer(read_tokenizer_file(memoryview(data))), library


def read(folder: Path) -> Both:
    return both_of(json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")))


@cache
def chain(name: str) -> Both:
    kind, _, added = name.partition("+")
    make = byte_level_chain if kind in BYTE_LEVEL else sentencepiece_chain
    return both_of(make(kind, added=bool(added)))


CHAINS = [
    *BYTE_LEVEL,
    *SENTENCEPIECE,
    "starcoder+added",
    "llama2+added",
    "metaspace_first+added",
    "runs+added",
]
BothOf = Callable[[str], Both]


@pytest.fixture(scope="module")
def real_of(data: Path) -> BothOf:
    return cache(lambda name: read(STARTERS / name if name in STARTER else data / "tokenizers" / name))


STARTER = ["a", "b", "drafter"]


def check_same(both: Both, text: str) -> None:
    compiled, library = both
    assert compiled.encode(text) == library.encode(text)
    assert compiled.spell(text.encode()) == library.spell(text.encode())


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_other_models_give_the_same_ids(name: str) -> None:
    both = chain(name)
    assert difference_of(*both) == ""

    @settings(max_examples=30, deadline=None)
    @given(text=ANY_TEXT)
    def check(text: str) -> None:
        check_same(both, text)

    check()


@pytest.mark.parametrize(("fuse", "unknown"), [(True, 1), (False, 3)])
def test_unknown_characters_are_one_token_where_the_model_fuses_them(fuse: bool, unknown: int) -> None:
    spec = sentencepiece_chain("llama2")
    spec["model"] |= {"byte_fallback": False, "fuse_unk": fuse}
    compiled, library = both_of(spec)
    ids = compiled.encode("Hello \u0e5b\u0e5b\u0e5b Hello")
    assert ids == library.encode("Hello \u0e5b\u0e5b\u0e5b Hello")
    assert ids.count(spec["model"]["vocab"]["<unk>"]) == unknown


@pytest.mark.parametrize("name", [*STARTER, *REAL])
def test_random_texts_give_the_same_ids(real_of: BothOf, name: str) -> None:
    compiled, library = real_of(name)
    mark = next(iter(library.controls))

    @settings(max_examples=100, deadline=None)
    @given(text=ANY_TEXT, data=st.binary(max_size=8), goes_on=st.booleans())
    def check(text: str, data: bytes, goes_on: bool) -> None:
        check_same((compiled, library), text)
        assert compiled.spell(data + text.encode()) == library.spell(data + text.encode())
        parts = text[:3] + mark + text, text, mark + text[::-1] + mark
        expected = library.encode_prompt(*parts, goes_on=goes_on)
        assert compiled.encode_prompt(*parts, goes_on=goes_on) == expected

    check()


def task_texts(data: Path) -> Iterator[str]:
    """Every row of the five task sets as one text."""
    for file in sorted((data / "tasks").glob("*/*.gz")):
        for line in gzip.decompress(file.read_bytes()).decode().split("\n"):
            if line:
                yield "\n".join(str(value) for value in json.loads(line).values())


# All 20,382 rows and the whole books take minutes for each tokenizer: OMNIDRAFT_ALL_TEXTS=1.
EVERY = 1 if os.environ.get("OMNIDRAFT_ALL_TEXTS") else 100


@pytest.mark.parametrize("name", [*STARTER, *REAL])
def test_task_texts_and_books_give_the_same_ids(data: Path, real_of: BothOf, name: str) -> None:
    compiled, library = real_of(name)
    books = [
        file.read_bytes() if file.suffix == ".txt" else gzip.decompress(file.read_bytes())
        for file in sorted((data / "text").iterdir())
    ]
    rows = [*task_texts(data)][::EVERY]
    paragraphs = [each for book in books for each in book.decode().split("\n\n")][::EVERY]
    assert len(books) == 3 and len(rows) * EVERY >= 20_000
    for text in rows + paragraphs:
        assert compiled.encode(text) == library.encode(text)


def test_a_long_word_takes_no_quadratic_time() -> None:
    """A word of 60,000 characters: with a merge loop in quadratic time this would take hours."""
    compiled, library = read(STARTERS / "drafter")
    for text in ("ab" * 30_000, "a" * 60_000, " " * 60_000):
        assert compiled.encode(text) == library.encode(text)
    compiled, library = read(STARTERS / "a")
    for text in ("'" * 60_000, " " * 60_000, "\n " * 30_000, "1" * 60_000):
        assert compiled.encode(text) == library.encode(text)


def test_the_small_tokenizers_of_the_vectors_compile_to_the_same_ids() -> None:
    """What this compiler makes of a tokenizer.json reads as the vectors' own file, which other code wrote."""
    files = sorted((ROOT / "spec/vectors/tokenize").glob("*.tokenizer.json"))
    assert files
    for file in files:
        ours = both_of(json.loads(file.read_text(encoding="utf-8")))[0]
        theirs = CompiledTokenizer.from_file(file.with_suffix(".bin"))
        assert list(ours.tokens) == list(theirs.tokens) and ours.fingerprint == theirs.fingerprint
        for text in ("hello flake", "  snow\n", "<s>é100", "ke ke</s>"):
            assert ours.encode(text) == theirs.encode(text)


def changed(**parts: Any) -> dict[str, Any]:
    spec = byte_level_chain("cl100k")
    spec["model"] |= parts.pop("model", {})
    return {**spec, **parts}


def regex(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, bytes_]})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: unigram([SPACE, "he"]), "the model Unigram"),
        (lambda: changed(normalizer={"type": "Lowercase"}), "the normaliser Lowercase"),
        (lambda: changed(normalizer={"type": "NFKC"}), "the normaliser NFKC"),
        (lambda: changed(pre_tokenizer={"type": "BertPreTokenizer"}), "the pre-tokenizer BertPreTokenizer"),
        (lambda: changed(pre_tokenizer=None), "without the pre-tokenizer ByteLevel"),
        (lambda: changed(model={"dropout": 0.5}), "a model with dropout 0.5"),
        (lambda: changed(model={"end_of_word_suffix": "</w>"}), "end_of_word_suffix '</w>'"),
        (lambda: regex(r"(a)\1"), r"\\1 in the regular"),
        (lambda: regex(r"\bword"), r"\\b in the regular"),
        (lambda: regex("(?>ab)+c"), r"\(\?>"),
        (lambda: regex("a*"), "a match of no characters"),
        (lambda: regex("(?=ab)a"), "around more than one character"),
        (lambda: regex("(?i:ss)x"), "a sequence of letters that one letter can stand for"),
        (lambda: regex("(?:ab)++"), "a possessive repetition of more than one"),
        (lambda: regex("a{500}"), r"the repetition \{500\}"),
    ],
    ids=range(15),
)
def test_what_cannot_be_compiled_is_named(
    make: Callable[[], dict[str, Any]], sentence: str, tmp_path: Path
) -> None:
    spec = make()
    library = LibraryTokenizer(spec)
    with pytest.raises(TokenizerError, match=sentence) as refused:
        compile_tokenizer(spec, library)
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    assert write_compiled(tmp_path / "tokenizer.json", library) == refused.value.message
    assert not (tmp_path / COMPILED).exists()


def test_a_file_that_differs_is_not_written(tmp_path: Path) -> None:
    """The check of an export notices a compiled tokenizer of another tokenizer.json."""
    spec = byte_level_chain("cl100k")
    other = {**spec, "pre_tokenizer": byte_level_chain("starcoder")["pre_tokenizer"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(other), encoding="utf-8")
    sentence = write_compiled(tmp_path / "tokenizer.json", LibraryTokenizer(spec))
    assert "give other ids for" in sentence and not (tmp_path / COMPILED).exists()
    same = LibraryTokenizer(json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8")))
    assert write_compiled(tmp_path / "tokenizer.json", same) == ""
    assert CompiledTokenizer.from_file(tmp_path / COMPILED).encode("1 23") == same.encode("1 23")
