"""What an output must be: a grammar, and how its text becomes a value."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from omnidraft.runtime.grammar.grammar import Grammar

_KEPT = 32  # compiled schemas


@dataclass(frozen=True)
class ResponseFormat:
    """A grammar, and a function that reads its texts; None where a text is its own value."""

    grammar: Grammar
    parse: Callable[[str], Any] | None = None


@runtime_checkable
class PydanticModel(Protocol):
    """What is used of a pydantic model, which is a class."""

    def model_json_schema(self) -> dict[str, Any]:
        """The JSON Schema of its values."""

    def model_validate_json(self, text: str) -> Any:
        """The value of a JSON text."""


Format = Grammar | Mapping[str, Any] | PydanticModel


def response_format(value: Format | None) -> ResponseFormat | None:
    """The format that a caller gave: a grammar, a JSON Schema, or a pydantic model.

    Raises:
        GrammarError: the schema is not supported.
    """
    if value is None:
        return None
    if isinstance(value, Grammar):
        return ResponseFormat(value)
    if isinstance(value, PydanticModel):
        return ResponseFormat(_of_schema(json.dumps(value.model_json_schema())), value.model_validate_json)
    return ResponseFormat(_of_schema(json.dumps(value)), json.loads)


@lru_cache(_KEPT)
def _of_schema(schema: str) -> Grammar:
    from omnidraft.grammar.compile_grammar import from_schema  # loaded where a schema is given

    return from_schema(json.loads(schema))
