"""The value of a JSON text that is still being written."""

import json
from typing import Any

import numpy as np
import pytest

from omnidraft.grammar import partial_json

LETTERS = [*'a"\\\n,:{}[] u', "\u00e9", "\U0001f600"]


def value(rng: np.random.Generator, depth: int) -> Any:
    """A random value with strings that look like JSON."""
    text = "".join(rng.choice(LETTERS, size=rng.integers(6)))
    kind = rng.integers(6 if depth else 3)
    if kind == 3 or kind == 4:
        return {f"{text}{i}": value(rng, depth - 1) for i in range(rng.integers(4))}
    if kind == 5:
        return [value(rng, depth - 1) for _ in range(rng.integers(4))]
    return text if kind else [None, True, False, 0, -1, 12, 3.5, 1e30, -2.5e-09][rng.integers(9)]


def goes_on(before: Any, after: Any) -> bool:
    """Whether a value may be the beginning of another."""
    if before is None:
        return True
    if isinstance(after, dict):
        names = list(after)[: len(before)]
        return list(before) == names and all(goes_on(before[name], after[name]) for name in names)
    if isinstance(after, list):
        return len(before) <= len(after) and all(map(goes_on, before, after))
    if isinstance(after, str):
        return after.startswith(before)
    return type(before) is type(after) and bool(before == after)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
def test_each_value_goes_on_with_the_one_before(ascii_only: bool, indent: int | None) -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        whole = value(rng, 3)
        text = json.dumps(whole, ensure_ascii=ascii_only, indent=indent)
        values = [partial_json(text[:size]) for size in range(len(text) + 1)]
        assert all(map(goes_on, values, [*values[1:], whole])), text
        assert partial_json(text + " ") == whole


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("", None),
        ("{", {}),
        ('{"na', {}),
        ('{"name": ', {}),
        ('{"name": "An', {"name": "An"}),
        ('{"name": "An\\', {"name": "An"}),
        ('{"name": "\\ud83d', {"name": ""}),
        ('{"name": "\\ud83d\\ude00', {"name": "\U0001f600"}),
        ('{"age": 3', {}),
        ('{"age": 34, ', {"age": 34}),
        ("[1, tru", [1]),
        ("[1, true", [1, True]),
    ],
)
def test_what_is_not_certain_is_left_out(text: str, known: Any) -> None:
    assert partial_json(text) == known


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        partial_json('{"a": b, ')
