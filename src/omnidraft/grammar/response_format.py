"""What an output must be: a grammar, and how its text becomes a value or calls of tools."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.tool_calls import CallForm

_KEPT = 32  # compiled schemas


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
    return ResponseFormat(_of_calls(json.dumps(schemas), form, free, most), None, form)


@lru_cache(_KEPT)
def _of_calls(schemas: str, form: CallForm, free: bool, most: int | None) -> Grammar:
    from omnidraft.grammar.call_grammar import from_calls  # loaded where tools are given

    return from_calls(json.loads(schemas), form, free=free, most=most)


@lru_cache(_KEPT)
def _of_schema(schema: str) -> Grammar:
    from omnidraft.grammar.compile_grammar import from_schema  # loaded where a schema is given

    return from_schema(json.loads(schema))
