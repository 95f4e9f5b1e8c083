"""A conversation as programs keep it: a list of messages with a role and a content."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.errors import PromptError
from omnidraft.runtime.grammar.tool_calls import ToolCall

MAX_MESSAGES = 1 << 17
MAX_CONTENT = 1 << 22  # bytes; a session file holds no longer message
MOST_CALLS = 1 << 10  # of an answer
ROLES = ("system", "user", "assistant", "tool")
_ROLES = "system, user, assistant and tool"
_OF_ROLE = {"assistant": ("tool_calls",), "tool": ("tool_call_id", "name")}


@dataclass(frozen=True)
class SpokenTurn:
    """A message of the user, or the results of tools in its place, and the answer to it.

    Attributes:
        calls: of tools, behind the text of the answer.
    """

    message: str
    answer: str = ""
    results: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class MessageList:
    """A list of messages, checked; `asked` is the last turn, which has no answer yet."""

    system: str | None
    turns: tuple[SpokenTurn, ...]
    asked: SpokenTurn


@dataclass(frozen=True)
class _Message:
    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""  # of the call that it is the result of


def read_messages(value: object) -> MessageList:
    """The messages that a program gives, such as `[{"role": "user", "content": "Hi"}]`.

    A system prompt stands first or is absent; then user and assistant take turns; the last message is the
    user's. The results of the tools that an answer called, one message each, stand in the place of the user's
    message.

    Raises:
        PromptError: the list, a role or a content is of another kind, the order is another one, or there is
            too much of it.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise PromptError(f"the prompt is a {type(value).__name__}", "give a text, or a list of messages")
    if len(value) > MAX_MESSAGES:
        raise PromptError(f"there are {len(value)} messages, more than {MAX_MESSAGES}", "leave old ones out")
    messages = [_message(number, each) for number, each in enumerate(value, 1)]
    system = messages.pop(0).content if messages and messages[0].role == "system" else None
    turns: list[SpokenTurn] = []
    asked, answered = None, _Message("assistant", "")
    at, shift = 0, 1 if system is None else 2
    while at < len(messages):
        message, number = messages[at], at + shift
        if asked is not None and message.role == "assistant":
            turns.append(replace(asked, answer=message.content, calls=message.calls))
            asked, answered = None, message
            at += 1
        elif asked is None and answered.calls and message.role == "tool":
            results = messages[at : at + len(answered.calls)]
            asked = SpokenTurn("", results=_results(answered, results, number))
            at += len(results)
        elif asked is None and message.role == "user":
            asked = SpokenTurn(message.content)
            at += 1
        else:
            expected = "user" if asked is None else "assistant"
            raise PromptError(
                f"message {number} has the role {message.role} where one of the {expected} is due",
                "give at most one system message, first, and then user and assistant in turn",
            )
    if asked is None:
        raise PromptError("the last message is not the user's", "end with the message to answer")
    return MessageList(system, tuple(turns), asked)


def checked_text(text: str, name: str = "the prompt") -> str:
    """A prompt's text, unchanged.

    Raises:
        PromptError: empty, white space alone, not encodable as UTF-8, or too long.
    """
    value: object = text
    if not isinstance(value, str):
        raise PromptError(f"{name} is a {type(value).__name__}", "give some text")
    if not text:
        raise PromptError(f"{name} is empty", "give some text")
    if not text.strip():
        raise PromptError(f"{name} is white space alone", "give some text")
    check_utf8(text, name)
    return text


def _message(number: int, value: object) -> _Message:
    """One message."""
    name = f"message {number}"
    role = value.get("role") if isinstance(value, Mapping) else None
    known = {"role", "content", *_OF_ROLE.get(role, ())} if isinstance(role, str) else {"role", "content"}
    if not isinstance(value, Mapping) or set(value) - known or not {"role", "content"} <= set(value):
        raise PromptError(f"{name} is not an object of role and content alone", "give both, and nothing else")
    content, calls = value["content"], value.get("tool_calls") or ()
    if role not in ROLES:
        raise PromptError(f"{name} has the role {role!r:.40}", f"the roles are {_ROLES}")
    if content is None and calls:
        content = ""
    if not isinstance(content, str):
        raise PromptError(f"the content of {name} is a {type(content).__name__}", "give text")
    if role in ("system", "user") and not content.strip():
        raise PromptError(f"{name}, of the {role}, has no text", "leave it out, or give it a text")
    check_utf8(content, name)
    if role == "tool":
        return _Message(role, content, call_id=str(value.get("tool_call_id")))
    return _Message(role, content, _calls(calls, name))


def _calls(value: object, name: str) -> tuple[ToolCall, ...]:
    """The calls of an assistant's message in OpenAI's form."""
    try:
        if not isinstance(value, Sequence) or len(value) > MOST_CALLS:
            raise ValueError
        calls = tuple(_call(each["function"], str(each.get("id"))) for each in value)
        written = [[call.name, call.arguments] for call in calls]
        text = json.dumps(written, ensure_ascii=False, allow_nan=False)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise PromptError(
            f"the calls of {name} are not of OpenAI's form",
            'give [{"type": "function", "function": {"name": ..., "arguments": ...}}]',
        ) from None
    check_utf8(text, name)
    return calls


def _call(function: Mapping[str, Any], call_id: str) -> ToolCall:
    name, arguments = function["name"], function["arguments"]
    arguments = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TypeError
    return ToolCall(name, arguments, call_id)


def _results(answered: _Message, results: Sequence[_Message], number: int) -> tuple[str, ...]:
    """The contents of the results of an answer's calls, in the order of the calls."""
    if len(results) < len(answered.calls) or any(each.role != "tool" for each in results):
        raise PromptError(
            f"the results from message {number} on are fewer than the {len(answered.calls)} calls",
            "give one message of the role tool for each call",
        )
    given, ids = {each.call_id: each.content for each in results}, [call.id for call in answered.calls]
    if len(given) == len(results) and given.keys() == set(ids):
        return tuple(given[each] for each in ids)
    return tuple(each.content for each in results)


def check_utf8(text: str, name: str) -> None:
    """Refuse a text that is not encodable as UTF-8, or too long.

    Raises:
        PromptError: naming it.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise PromptError(
            f"{name} holds bytes that are not UTF-8, or half a surrogate pair", "give whole text"
        )
    if len(text.encode()) > MAX_CONTENT:
        raise PromptError(f"{name} has more than {MAX_CONTENT} bytes", "shorten it")
