"""Tools that a model may call: Python functions, or what OpenAI's interface calls a tool."""

import inspect
import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from omnidraft.errors import PromptError, reason
from omnidraft.runtime.chat.messages import check_utf8

MOST_TOOLS, MOST_BYTES = 128, 1 << 18  # of all tools as JSON
Choice = Literal["auto", "none", "required"] | str
CHOICES = ("auto", "none", "required")
ToolLike = Callable[..., Any] | Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OF_ARGUMENT = re.compile(r"^\s+(\w+)(?: *\(.*?\))?: *(.+)$", re.MULTILINE)
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
          list: "array", dict: "object"}  # fmt: skip
_REMEDY = 'give functions with type hints, or {"type": "function", "function": {"name": ..., ...}}'


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: by which a model calls it.
        value: the tool as a JSON value in OpenAI's form, which templates list.
        arguments: the JSON Schema of its arguments.
    """

    name: str
    value: dict[str, Any]
    arguments: dict[str, Any]


def read_tools(tools: Sequence[ToolLike]) -> tuple[Tool, ...]:
    """The tools that a program gives.

    Raises:
        PromptError: one is neither a function with type hints nor a dict in OpenAI's form, two have the same
            name, or there is too much of them.
    """
    given: object = tools
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise PromptError(f"the tools are a {type(given).__name__}", "give a list")
    if len(tools) > MOST_TOOLS:
        raise PromptError(f"there are {len(tools)} tools, more than {MOST_TOOLS}", "give fewer")
    read = tuple(_of_function(each) if callable(each) else _of_dict(each) for each in tools)
    for i, tool in enumerate(read):
        if tool.name in CHOICES or tool.name in (other.name for other in read[:i]):
            raise PromptError(
                f"two tools have the name {tool.name}, or it is a choice", "give each its own name"
            )
    if sum(len(json.dumps(tool.value)) for tool in read) > MOST_BYTES:
        raise PromptError(f"the tools have more than {MOST_BYTES} bytes", "describe them more briefly")
    return read


def result_text(result: Any) -> str:
    """The result of a tool as text; a value of another type is written as JSON.

    Raises:
        PromptError: it is no JSON value, or too long.
    """
    try:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError(f"the result is no JSON value ({error!s:.80})", "give text") from None
    check_utf8(text, "the result")
    return text


def _of_dict(given: object) -> Tool:
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or given.get("type") != "function" or not isinstance(function, Mapping):
        raise PromptError(f"the tool {given!r:.60} is not of OpenAI's form", _REMEDY)
    name, description = function.get("name"), function.get("description", "")
    arguments = function.get("parameters", {"type": "object", "properties": {}})
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PromptError(f"the tool's name is {name!r:.60}", "use 1 to 64 letters, digits, _, . and -")
    if not isinstance(description, str):
        raise PromptError(
            f"the description of the tool {name} is a {type(description).__name__}", "give text"
        )
    if not isinstance(arguments, Mapping) or arguments.get("type") != "object":
        raise PromptError(
            f"the parameters of the tool {name} are no JSON Schema of an object",
            'give {"type": "object", ...}',
        )
    described = {"name": name, "description": description, "parameters": dict(arguments)}
    try:
        value = json.loads(json.dumps({"type": "function", "function": described}, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError(f"the tool {name} is no JSON value ({error!s:.80})", _REMEDY) from None
    check_utf8(json.dumps(value, ensure_ascii=False), f"the tool {name}")
    return Tool(name, value, value["function"]["parameters"])


def _of_function(function: Callable[..., Any]) -> Tool:
    """A tool from a function's name, docstring and type hints."""
    name = getattr(function, "__name__", type(function).__name__)
    description, *rest = (inspect.getdoc(function) or "").split("\n\n", 1)
    told = dict(_OF_ARGUMENT.findall("\n".join(rest)))
    try:
        hints, signature = get_type_hints(function), inspect.signature(function)
    except Exception as error:  # a hint that is a string is an expression, which may raise anything
        raise PromptError(
            f"the type hints of the tool {name} cannot be read ({reason(error)})", _REMEDY
        ) from None
    properties, required = {}, []
    for each in signature.parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise PromptError(f"the argument {each} of the tool {name} has no name in a call", _REMEDY)
        if each.name not in hints:
            raise PromptError(f"the argument {each.name} of the tool {name} has no type hint", _REMEDY)
        properties[each.name] = _schema(hints[each.name], f"the argument {each.name} of the tool {name}")
        if each.name in told:
            properties[each.name]["description"] = told[each.name]
        if each.default is each.empty:
            required.append(each.name)
    arguments = {"type": "object", "properties": properties, "required": required}
    described = {"name": name, "description": " ".join(description.split()), "parameters": arguments}
    return _of_dict({"type": "function", "function": described})


def _schema(hint: Any, name: str) -> dict[str, Any]:
    """The JSON Schema of a type hint."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each, name) for each in inside]}
    if origin is list and len(inside) == 1:
        return {"type": "array", "items": _schema(inside[0], name)}
    if origin is dict and len(inside) == 2 and inside[0] is str:
        return {"type": "object", "additionalProperties": _schema(inside[1], name)}
    for plain, written in _TYPES.items():
        if hint is plain:
            return {"type": written}
    raise PromptError(f"{name} has the type {hint!r:.60}, which has no JSON Schema here", _REMEDY)
