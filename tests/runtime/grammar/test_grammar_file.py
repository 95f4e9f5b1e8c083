"""Grammar files: written, read again, and refused when they are damaged."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from omnidraft.errors import GrammarError
from omnidraft.grammar import file_bytes, from_choices, from_regex, from_schema
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.grammar import START
from omnidraft.runtime.grammar.grammar_file import load_grammar, read_grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks
from support.places import ROOT

BYTES = ByteTrie([bytes([b]) for b in range(256)], 256)


def test_a_file_holds_the_grammar(tmp_path: Path) -> None:
    grammar = from_schema(True, depth=3)
    (tmp_path / "a.grammar").write_bytes(file_bytes(grammar))
    read = load_grammar(tmp_path / "a.grammar")
    assert all(np.array_equal(value, read.tensors()[name]) for name, value in grammar.tensors().items())
    assert read.depth == 3 and read.matches(b'[{"a": [1.5e3]}]') and not read.matches(b"[[[[1]]]]")


def test_the_same_input_gives_the_same_file() -> None:
    """In every process: the order of a set depends on the seed of its hashes."""
    schema = {"properties": {"a": {"enum": ["x", 1]}, "b": True}}
    program = (
        "import sys; from omnidraft.grammar import file_bytes, from_schema; "
        f"sys.stdout.buffer.write(file_bytes(from_schema({schema})))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
        made = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True
        )
        assert made.stdout == file_bytes(from_schema(schema))


def test_no_damaged_file_does_harm() -> None:
    """A file with other bytes is refused, or is a grammar whose texts can be completed."""
    data, rng = file_bytes(from_schema({"properties": {"a": True}}, depth=2)), np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for at in rng.integers(len(data), size=int(rng.integers(1, 4))):
            damaged[at] = int(rng.integers(256))
        if rng.random() < 0.1:
            damaged = damaged[: int(rng.integers(len(data)))]
        try:
            grammar = read_grammar(bytes(damaged))
        except GrammarError as error:
            refused += bool(error.fault)
            continue
        masks = TokenMasks(grammar, BYTES, [])
        at, room = START, masks.bound(START) + 3
        while room and not masks.is_last(at, room):
            allowed = np.flatnonzero(masks.mask(at, room))
            assert len(allowed) or grammar.is_complete(at)
            if not len(allowed):
                break
            behind = grammar.step(at, int(rng.choice(allowed)))
            assert behind is not None
            at, room = behind, room - 1
        assert grammar.is_complete(at)
    assert 200 < refused < 400


@pytest.mark.parametrize(
    ("tensor", "index", "value"),
    [("next", (0, 0), 99), ("next", (0, 0), -2), ("classes", 5, 200), ("closing", 0, 0), ("nesting", 0, -1),
     ("accepting", 0, 2)],
)  # fmt: skip
def test_tables_that_contradict_each_other_are_refused(tensor: str, index: object, value: int) -> None:
    grammar = from_choices(["ab", "c"])
    tensors = {name: each.copy() for name, each in grammar.tensors().items()}
    tensors[tensor][index] = value
    with pytest.raises(GrammarError) as caught:
        read_grammar(save(tensors, grammar.metadata()))
    assert caught.value.fault == "tables"


def test_a_file_of_another_format_or_none_is_refused(tmp_path: Path) -> None:
    grammar = from_regex("a+")
    with pytest.raises(GrammarError, match="no grammar file of version 1"):
        read_grammar(save(grammar.tensors(), {**grammar.metadata(), "version": "2"}))
    with pytest.raises(GrammarError, match="cannot be read"):
        load_grammar(tmp_path / "none.grammar")
    with pytest.raises(GrammarError, match="no grammar file"):
        read_grammar(b"{}")
