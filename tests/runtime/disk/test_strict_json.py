"""JSON from outside is read strictly and in bounds; JSON of ours has one way to be written."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.runtime.disk.strict_json import MAX_CONTAINERS, MAX_DEPTH, bits_of, dump, number_of, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_read_by_both_parsers(value: object) -> None:
    data = dump(value)
    assert parse(data) == json.loads(data) == value
    assert dump(parse(data)) == data


def test_strings_have_one_form() -> None:
    assert (
        dump('"\\/\b\n\x1f\x7f\u00e9\U0001f680')
        == '"\\"\\\\/\\u0008\\u000a\\u001f\x7f\u00e9\U0001f680"'.encode()
    )


def test_a_float_has_no_form_but_its_bits() -> None:
    with pytest.raises(TypeError, match="float has no form"):
        dump([0.5])
    assert bits_of(1.0) == "3ff0000000000000"


@given(st.floats(allow_nan=False))
@settings(deadline=None)
def test_bits_are_the_number(number: float) -> None:
    assert struct.pack(">d", number_of(bits_of(number))) == struct.pack(">d", number)


@given(st.binary(max_size=40) | st.text('[]{}",:\\u0123e-.tn ', max_size=40).map(str.encode))
@settings(max_examples=500, deadline=None)
def test_the_parser_is_total_and_no_laxer_than_the_library(data: bytes) -> None:
    try:
        value = parse(data)
    except ValueError:
        return
    assert json.loads(data) == value


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_the_depth_is_bounded_before_the_parser_is_called(pair: str, closed: bool) -> None:
    opening = pair[0] if pair == "[]" else '{"a":'
    with pytest.raises(ValueError, match=f"nested more than {MAX_DEPTH} deep"):
        parse((opening * 500_000 + (pair[1] * 500_000 if closed else "")).encode())


def test_the_number_of_values_is_bounded() -> None:
    """Brackets inside strings are none; a list of empty lists takes fifty times its bytes."""
    assert len(parse(b"[" + b"[]," * (MAX_CONTAINERS - 2) + b"[]]")) == MAX_CONTAINERS - 1
    for text in (b"[" + b"[]," * MAX_CONTAINERS + b"[]]", b"[" + b"{}," * MAX_CONTAINERS + b"{}]"):
        with pytest.raises(ValueError, match=f"more than {MAX_CONTAINERS} arrays and objects"):
            parse(text)
    assert parse(b'"' + b"[" * (MAX_CONTAINERS + 1) + b'"') == "[" * (MAX_CONTAINERS + 1)


@pytest.mark.parametrize("tail", ["", "\\", '"', "\\\\"])
def test_an_endless_string_is_looked_at_once(tail: str) -> None:
    """Each quotation mark of it could begin another search to the end of the text."""
    with pytest.raises(ValueError, match=r"."):
        parse(('"' + '\\"' * 1_000_000 + tail).encode()[:-1])
