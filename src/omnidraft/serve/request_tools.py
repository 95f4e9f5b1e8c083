"""What a request says of tools: which an answer may or must call, and which earlier answers called."""

from typing import Any

from omnidraft.runtime.disk.json_fields import boolean, mapping, text
from omnidraft.serve.request_fields import RequestFields, mappings


def read_tools_of(fields: RequestFields) -> tuple[list[dict[str, Any]], str]:
    """The tools in OpenAI's form, as a session takes them, and which of them the answer must call.

    Raises:
        ApiError: naming the field.
    """
    tools = fields.read("tools", mappings, [])
    for i, tool in enumerate(tools):
        inner = RequestFields(tool, f"tools.{i}.")
        inner.only("type", "function")
        function = RequestFields(inner.needed("function", mapping), f"tools.{i}.function.")
        function.read("strict", boolean, True)  # arguments fit the schema in either case
        function.accept("name", "description", "parameters")
        function.refuse_others()
        inner.refuse_others()
    return tools, fields.read("tool_choice", _choice, "auto")


def read_calls(fields: RequestFields) -> list[dict[str, Any]]:
    """The calls in an assistant's message."""
    calls = fields.read("tool_calls", mappings, [])
    for each in calls:
        inner = RequestFields(each, "tool_calls.")
        inner.only("type", "function")
        inner.read("id", text, None)
        function = RequestFields(inner.needed("function", mapping), "tool_calls.function.")
        function.needed("name", text)
        function.needed("arguments", text)
        function.refuse_others()
        inner.accept("index")
        inner.refuse_others()
    return calls


def _choice(value: object) -> str:
    """The choice as a session names it: a word, or the name of a tool."""
    if isinstance(value, str):
        if value not in ("auto", "none", "required"):
            raise ValueError(f"{value!r:.80} is not auto, none, required or a function")
        return value
    choice = mapping(value)
    if choice.get("type") != "function" or choice.keys() - {"type", "function"}:
        raise ValueError(f"{choice!r:.80} is not supported")
    return text(mapping(choice.get("function")).get("name"))
