"""What an output must be: a grammar, and how its text becomes a value or calls of tools."""

import json
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.tool_calls import CallForm

_ROOM, _ENTRY = 1 << 26, 1 << 12  # bytes of compiled schemas that are kept, and of each beside its tables
_kept: dict[tuple[object, ...], Grammar | GrammarError] = {}  # the one that was asked for last at the end
_lock = Lock()


@dataclass(frozen=True)
class ResponseFormat:
    """What an output must be.

    Attributes:
        parse: reads a whole text; None where a text is its own value.
        grammar: None for an output that is only read.
        calls: how calls of tools are written in it; None where it has none.
    """

    grammar: Grammar | None
    parse: Callable[[str], Any] | None = None
    calls: CallForm | None = None


@runtime_checkable
class PydanticModel(Protocol):
    """What is used of a pydantic model, which is a class."""

    def model_json_schema(self) -> dict[str, Any]:
        """The JSON Schema of its values."""

    def model_validate_json(self, text: str) -> Any:
        """The value of a JSON text."""


Format = Grammar | Mapping[str, Any] | PydanticModel


def response_format(value: Format | None, calls: CallForm | None = None) -> ResponseFormat | None:
    """The format that a caller gave: a grammar, a JSON Schema, or a pydantic model.

    Args:
        calls: of a grammar of tools.

    Raises:
        GrammarError: the schema is not supported.
    """
    if value is None:
        return None
    if isinstance(value, Grammar):
        return ResponseFormat(value, None, calls)
    if isinstance(value, PydanticModel):
        return ResponseFormat(_of_schema(json.dumps(value.model_json_schema())), value.model_validate_json)
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(f"the schema is no JSON value ({error!s:.80})", "give a JSON Schema") from None
    return ResponseFormat(_of_schema(text), json.loads)


def call_format(
    schemas: Mapping[str, Any], form: CallForm, *, free: bool, most: int | None = None
) -> ResponseFormat:
    """The format of answers that call tools; see `from_calls`.

    Raises:
        GrammarError: naming the tool, and what is not supported in its schema.
    """
    text = json.dumps(schemas)

    def compiled() -> Grammar:
        from omnidraft.grammar.call_grammar import from_calls  # loaded where tools are given

        return from_calls(json.loads(text), form, free=free, most=most)

    return ResponseFormat(_known((text, form, free, most), compiled), None, form)


def _of_schema(text: str) -> Grammar:
    def compiled() -> Grammar:
        from omnidraft.grammar.compile_grammar import from_schema  # loaded where a schema is given

        return from_schema(json.loads(text))

    return _known((text,), compiled)


def _known(key: tuple[object, ...], compiled: Callable[[], Grammar]) -> Grammar:
    """What a schema was compiled to, or its refusal, if that is kept; else it is compiled now.

    Args:
        key: what it is compiled of, the text of the schema first.

    Raises:
        GrammarError: the schema is not supported.
    """
    with _lock:
        found = _kept.pop(key, None)
        if found is not None:
            _kept[key] = found
    if found is None:
        try:
            found = compiled()
        except GrammarError as error:
            found = copy(error)  # the error itself has a traceback, which keeps what it passed through
        with _lock:
            _kept[key] = found
            while sum(map(_size, _kept.items())) > _ROOM:
                del _kept[next(iter(_kept))]
    if isinstance(found, GrammarError):
        raise copy(found)
    return found


def _size(kept: tuple[tuple[object, ...], Grammar | GrammarError]) -> int:
    """Bytes of a text and what it was compiled to, about."""
    (text, *_), found = kept
    tables = found.tensors().values() if isinstance(found, Grammar) else ()
    return _ENTRY + len(str(text)) + sum(table.nbytes for table in tables)
