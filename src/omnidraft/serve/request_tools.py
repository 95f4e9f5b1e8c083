"""What a request says of tools: which an answer may or must call, and which earlier answers called."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from omnidraft.runtime.disk.json_fields import boolean, mapping, text
from omnidraft.serve.api_error import ApiError
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
        function.needed("arguments", _arguments)
        function.refuse_others()
        inner.accept("index")
        inner.refuse_others()
    return calls


def check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a result of no call of the answer before, where all of these have ids; each has one result.

    Raises:
        ApiError: naming the field.
    """
    due: list[str] | None = None  # ids of calls without a result yet; None where they are not known
    for i, message in enumerate(messages):
        if message["role"] != "tool":
            ids = [each.get("id") for each in message.get("tool_calls", ())]
            due = ids if ids and None not in ids else None
        elif due is not None:
            given = message["tool_call_id"]
            if given not in due:
                param = f"messages.{i}.tool_call_id"
                sentence = f"{given!r:.80} is no call that waits for a result; give the id of one"
                raise ApiError(400, f"{param}: {sentence}", param=param)
            due.remove(given)


def _arguments(value: object) -> str:
    """The arguments of a call: the text of a JSON object."""
    written = text(value)
    try:
        arguments = json.loads(written)
    except (RecursionError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ValueError(f"{written!r:.80} is no JSON object; write no arguments as {{}}")
    return written


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
