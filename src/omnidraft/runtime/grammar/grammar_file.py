"""Read a grammar file, strictly. spec/17-grammar.md."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import GrammarError
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.tensor_file import Tensor, TensorFileError, read_header, read_tensors
from omnidraft.runtime.grammar.grammar import (
    FORMAT,
    FORMAT_VERSION,
    MOST_STACK,
    MOST_STATES,
    TYPES,
    Grammar,
)

MOST_BYTES, MOST_HEADER, MOST_TOOLS = 1 << 25, 1 << 14, 1 << 22


def load_grammar(path: str | Path) -> Grammar:
    """The grammar in a file.

    Raises:
        GrammarError: it is no grammar file, or its tables contradict each other; `fault` names why.
    """
    try:
        data = read_whole(path, MOST_BYTES)
    except OSError as error:
        raise GrammarError(
            f"{path} cannot be read: {error.strerror}", "give a file that can be read", fault="unreadable"
        ) from None
    return read_grammar(data, str(path))


def read_grammar(data: bytes, name: str = "the grammar") -> Grammar:
    """`load_grammar` from the bytes of a file."""
    remedy = "compile one with `omnidraft grammar`"
    try:
        metadata, entries, start = read_header(data, MOST_HEADER)
        if (metadata.get("format"), metadata.get("version")) != (FORMAT, FORMAT_VERSION):
            raise GrammarError(
                f"{name} is no grammar file of version {FORMAT_VERSION}", remedy, fault="format"
            )
        depth = metadata.get("depth", "")
        if not re.fullmatch("[0-9]{1,2}", depth) or int(depth) > MOST_STACK:
            raise GrammarError(f"{name} does not say how deep it nests", remedy, fault="format")
        tensors = read_tensors(data, entries, start)
    except TensorFileError as error:
        raise GrammarError(f"{name} is no grammar file: {error}", remedy, fault=error.fault) from None
    return _checked(tensors, int(depth), name)


def _checked(tensors: dict[str, Tensor], depth: int, name: str) -> Grammar:
    """The grammar of a file's tensors, whose numbers are in their ranges."""

    def broken(why: str) -> GrammarError:
        return GrammarError(f"{name} is no grammar: {why}", "make it again", fault="tables")

    listed = tensors.pop("tools", None)
    if {key: tensor.dtype for key, tensor in tensors.items()} != TYPES:
        raise broken(f"it has the tensors {', '.join(sorted(tensors))[:200]}")
    arrays: dict[str, npt.NDArray[Any]] = {
        key: np.frombuffer(each.data, "u1" if each.dtype == "U8" else "<i4").reshape(each.shape)
        for key, each in tensors.items()
    }
    moves, calls = arrays["next"], arrays["calls"]
    states, classes = moves.shape if moves.ndim == 2 else (0, 0)
    if not 0 < states <= MOST_STATES or not 0 < classes <= 256:
        raise broken(f"it has {states} states and {classes} classes")
    shapes = {"classes": (256,), "accepting": (states,), "closing": (states,), "nesting": (states,)}
    if any(arrays[key].shape != shape for key, shape in shapes.items()) or calls.shape[1:] != (3,):
        raise broken("the sizes of its tensors differ")
    if len(set(arrays["classes"].tolist())) != classes:
        raise broken("a class has no byte")
    if (arrays["classes"] >= classes).any() or (moves < -1).any() or (moves >= states).any():
        raise broken("a move leads out of it")
    if len(calls) and ((calls < 0).any() or (calls.max(axis=0) >= (states, classes, states)).any()):
        raise broken("a call leads out of it")
    if (
        (arrays["accepting"] > 1).any()
        or (arrays["nesting"] < 0).any()
        or (arrays["nesting"] > MOST_STACK).any()
    ):
        raise broken("a state of it is none")
    try:
        tools = "" if listed is None else bytes(listed.data).decode()
    except UnicodeDecodeError:
        raise broken("its tools are no text") from None
    if listed is not None and (listed.dtype, len(listed.shape)) != ("U8", 1):
        raise broken("its tools are no bytes")
    if listed is not None and not 0 < len(listed.data) <= MOST_TOOLS:
        raise broken(f"its tools have {len(listed.data)} bytes")
    grammar = Grammar(depth=depth, tools=tools, **arrays)
    _check_closing(grammar, broken)
    return grammar


def _check_closing(grammar: Grammar, broken: Any) -> None:
    """From each state a move or a call leads nearer to the end, so that every text can be completed."""
    closing, nesting, nearer = grammar.closing, grammar.nesting, grammar.accepting.astype(bool)
    if (closing < 0).any() or (closing[nearer] != 0).any() or (nesting[nearer] != 0).any():
        raise broken("its ways to the end are none")
    if nesting[0] > grammar.depth:
        raise broken("no text is shallow enough")
    states, of_byte = np.nonzero(grammar.next >= 0)
    to = grammar.next[states, of_byte]
    width = grammar.next.shape[1]
    keys = grammar.calls[:, 0].astype(np.int64) * width + grammar.calls[:, 1]
    if (np.diff(keys) <= 0).any():
        raise broken("its calls are not sorted")
    plain = ~np.isin(states.astype(np.int64) * width + of_byte, keys)
    for state, of_call, back in grammar.calls.tolist():
        first = int(grammar.next[state, of_call])
        if first < 0:
            raise broken("a call leads nowhere")
        inside = int(closing[first]) + int(closing[back])
        deep = max(1 + int(nesting[first]), int(nesting[back]))
        nearer[state] |= inside < closing[state] and deep <= nesting[state]
    good = plain & (closing[to] < closing[states]) & (nesting[to] <= nesting[states])
    nearer[states[good]] = True
    if not nearer.all():
        raise broken(f"state {int(np.flatnonzero(~nearer)[0])} does not lead to the end")
