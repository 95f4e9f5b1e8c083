"""The file of a compiled tokenizer: whatever its bytes are, it is refused by name or it runs in bounds."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnidraft.errors import TokenizerError
from omnidraft.runtime.vocab.code_point_program import find_matches, make_program
from omnidraft.runtime.vocab.compiled_tokenizer import AddedTokens, CompiledTokenizer
from omnidraft.runtime.vocab.tokenizer_file import open_tokenizer_file, read_tokenizer_file
from omnidraft.runtime.vocab.tokenizer_format import MOST_GROWTH, MOST_WORK, AddedFlag, Op, StepOp
from omnidraft.runtime.vocab.tokenizer_steps import growth_and_work
from omnidraft.runtime.vocab.tokenizer_tables import NONE, AddedToken, TextStep
from support.places import ROOT

VECTORS = ROOT / "spec/vectors/tokenizer"
FILES = {file.stem: file.read_bytes() for file in sorted(VECTORS.glob("*.bin"))}
FAULTS = {
    v["expect"]["fault"] for v in json.loads((VECTORS / "invalid/files.json").read_text(encoding="utf-8"))
}
TEXT = "hello  world don't 100\r\n\u4f60\u597de\u0301 X snowman \u2581\U0001f600"


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(FILES)),
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6
    ),
)
def test_changed_bytes_are_refused_by_name_or_harmless(name: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray(FILES[name])
    for place, byte in changes:
        data[int(place * len(data))] = byte
    fault, tokenizer = "", None
    try:
        tokenizer = CompiledTokenizer(read_tokenizer_file(memoryview(bytes(data))))
    except TokenizerError as error:
        fault = error.fault
    if tokenizer is None:
        assert fault in FAULTS
        return
    ids = tokenizer.encode(TEXT) + tokenizer.encode_prompt("<s>a", TEXT, "<|end|>b", goes_on=True)
    assert all(0 <= token < len(tokenizer) for token in ids)
    assert isinstance(tokenizer.text_of(ids), bytes)
    assert len(list(tokenizer.tokens)) == len(tokenizer)


def test_the_end_may_be_missing_anywhere() -> None:
    data = FILES["metaspace"]
    for size in [*range(260), *range(260, len(data), 97)]:
        with pytest.raises(TokenizerError) as refused:
            read_tokenizer_file(memoryview(data[:size]))
        assert refused.value.fault in ("truncated", "not_a_tokenizer")


def test_a_file_is_refused_with_its_name_and_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="cannot be read") as refused:
        open_tokenizer_file(tmp_path / "none.bin")
    assert refused.value.fault == "unreadable"
    (tmp_path / "tokenizer.bin").write_bytes(b"")
    with pytest.raises(TokenizerError, match="is refused: it is not a compiled tokenizer; run") as refused:
        open_tokenizer_file(tmp_path / "tokenizer.bin")
    assert str(tmp_path) in refused.value.message


CLASSES, LONGEST = 2, 40
INSTRUCTIONS = st.tuples(st.integers(0, 7), st.integers(0, 11), st.integers(0, 11))


class Counted(list[int]):
    """Instructions that count how often one is run."""

    runs = 0

    def __getitem__(self, at: Any) -> Any:
        self.runs += 1
        return super().__getitem__(at)


@settings(max_examples=300, deadline=None)
@given(
    code=st.lists(INSTRUCTIONS, min_size=1, max_size=12), masks=st.lists(st.integers(0, 3), max_size=LONGEST)
)
@example(code=[*((2, 6, at + 1) for at in range(6)), *[(5, 0, 0)] * 4, (1, 1, 0), (0, 0, 0)], masks=[2] * 9)
def test_no_program_runs_more_instructions_than_its_cost(
    code: list[tuple[int, int, int]], masks: list[int]
) -> None:
    size = len(code)
    fitting = [(op, a % size if op in (2, 3) else a % CLASSES, b % size) for op, a, b in code]
    try:
        program = make_program([*fitting, (0, 0, 0)], CLASSES)
    except ValueError:
        return
    ops = Counted(program.ops)
    list(find_matches(replace(program, ops=ops), masks))
    assert ops.runs <= program.cost * (len(masks) + 1)


@pytest.mark.parametrize("name", sorted(FILES))
def test_tokenizers_of_models_are_far_below_the_bounds(name: str) -> None:
    tables = read_tokenizer_file(memoryview(FILES[name]))
    growth, work = growth_and_work(tables.steps, tables.added)
    if name == "bounds":
        assert (growth, work) == (MOST_GROWTH, MOST_WORK)
    else:
        assert 4 * growth <= MOST_GROWTH and 5 * work <= MOST_WORK


@given(text=st.text(alphabet=" \tab", max_size=40))
@settings(max_examples=300, deadline=None)
def test_white_space_behind_a_token_is_passed_once(text: str) -> None:
    tokens = [
        AddedToken(1, " ", AddedFlag.RSTRIP),
        AddedToken(2, "\t"),
        AddedToken(3, "ab", AddedFlag.LSTRIP),
    ]
    found = list(AddedTokens(tokens, str.isalnum).parts(text))
    assert found == list(_parts(text, {token.content: token for token in tokens}))


def _parts(text: str, tokens: dict[str, AddedToken]) -> Iterator[tuple[int, str, int]]:
    """spec/02-tokenizer.md, cut, word for word."""
    last = at = 0
    while at < len(text):
        content = next((each for each in tokens if text.startswith(each, at)), None)
        if content is None:
            at += 1
            continue
        start, end = at, at + len(content)
        at = end
        if tokens[content].flags & AddedFlag.LSTRIP:
            while start > last and text[start - 1] in " \t":
                start -= 1
        if tokens[content].flags & AddedFlag.RSTRIP:
            while end < len(text) and text[end] in " \t":
                end += 1
        if last < start:
            yield last, text[last:start], NONE
        yield (
            max(start, last) if tokens[content].flags & AddedFlag.LSTRIP else start,
            content,
            tokens[content].id,
        )
        last = end
    if last < len(text):
        yield last, text[last:], NONE


class CountedMasks(list[int]):
    """Masks of a text that end a search which looks at them more often than it may."""

    left = 0

    def __getitem__(self, at: Any) -> Any:
        self.left -= 1
        assert self.left >= 0, "a state is visited again"
        return super().__getitem__(at)


def test_the_marks_of_a_program_are_bits() -> None:
    """A text of 4 MiB has a place in memory for each of 500 SPLITs."""
    splits, size = 500, 20_000
    ways = [(Op.SPLIT, at + 2, splits + 1) for at in range(splits)]
    program = make_program([(Op.CODE_CLASS, 0, 0), *ways, (Op.MATCH, 0, 0)], classes=1)
    masks = [0] * size
    tracemalloc.start()
    try:
        assert list(find_matches(program, masks)) == []
        assert tracemalloc.get_traced_memory()[1] < splits * (size + 1) / 8 + 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [20, 40, 80])
def test_a_program_visits_no_state_twice(size: int) -> None:
    """(a+)+b has 2^n ways through n letters a, none of which leads to b."""
    letter, end = (Op.CODE_CLASS, 0, 0), (Op.CODE_CLASS, 1, 0)
    once = [letter, (Op.SPLIT, 2, 4), letter, (Op.JUMP, 1, 0)]  # a+
    again = [(Op.SPLIT, 5, 10), letter, (Op.SPLIT, 7, 9), letter, (Op.JUMP, 6, 0), (Op.JUMP, 4, 0)]
    program = make_program([*once, *again, end, (Op.MATCH, 0, 0)], classes=2)
    masks = CountedMasks([1] * size + [0] + [1] * size + [2])
    masks.left = len(masks) * len(program.ops)
    assert list(find_matches(program, masks)) == [(size + 1, len(masks))]


@pytest.mark.parametrize("name", ["gpt2", "llama3"])
def test_a_letter_that_is_no_byte_has_no_piece(name: str) -> None:
    tables = read_tokenizer_file(memoryview(FILES[name]))
    step = TextStep(StepOp.PREFIX, ("\u6f22",))  # behind BYTES, so it is no letter of the byte alphabet
    changed = CompiledTokenizer(replace(tables, steps=(*tables.steps, step)))
    ids, plain = changed.encode("ab"), CompiledTokenizer(tables).encode("ab")
    assert ids == plain or ids == [tables.unknown_id, *plain]
