"""A conversation as programs keep it: a list of messages with a role and a content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omnidraft.errors import PromptError

MAX_MESSAGES = 1 << 17
MAX_CONTENT = 1 << 22  # bytes; a session file holds no longer message
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class MessageList:
    """A list of messages, checked."""

    system: str | None
    turns: tuple[tuple[str, str], ...]
    message: str


def read_messages(value: object) -> MessageList:
    """The messages that a program gives, such as `[{"role": "user", "content": "Hi"}]`.

    A system prompt stands first or is absent; then user and assistant take turns; the last message is the
    user's.

    Raises:
        PromptError: the list, a role or a content is of another kind, the order is another one, or there is
            too much of it.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise PromptError(f"the prompt is a {type(value).__name__}", "give a text, or a list of messages")
    if len(value) > MAX_MESSAGES:
        raise PromptError(f"there are {len(value)} messages, more than {MAX_MESSAGES}", "leave old ones out")
    messages = [_message(number, each) for number, each in enumerate(value, 1)]
    system = messages.pop(0)[1] if messages and messages[0][0] == "system" else None
    shift = 1 if system is None else 2
    for index, (role, _) in enumerate(messages):
        expected = "assistant" if index % 2 else "user"
        if role != expected:
            raise PromptError(
                f"message {index + shift} has the role {role} where one of the {expected} is due",
                "give at most one system message, first, and then user and assistant in turn",
            )
    if len(messages) % 2 == 0:
        raise PromptError("the last message is not the user's", "end with the message to answer")
    contents = [content for _, content in messages]
    return MessageList(system, tuple(zip(contents[:-1:2], contents[1::2], strict=True)), contents[-1])


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
    _check_utf8(text, name)
    return text


def _message(number: int, value: object) -> tuple[str, str]:
    """Role and content of one message."""
    name = f"message {number}"
    if not isinstance(value, Mapping) or set(value) != {"role", "content"}:
        raise PromptError(f"{name} is not an object of role and content alone", "give both, and nothing else")
    role, content = value["role"], value["content"]
    if role not in ROLES:
        raise PromptError(f"{name} has the role {role!r:.40}", "the roles are system, user and assistant")
    if not isinstance(content, str):
        raise PromptError(f"the content of {name} is a {type(content).__name__}", "give text")
    if role != "assistant" and not content.strip():
        raise PromptError(f"{name}, of the {role}, has no text", "leave it out, or give it a text")
    _check_utf8(content, name)
    return role, content


def _check_utf8(text: str, name: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise PromptError(
            f"{name} holds bytes that are not UTF-8, or half a surrogate pair", "give whole text"
        )
    if len(text.encode()) > MAX_CONTENT:
        raise PromptError(f"{name} has more than {MAX_CONTENT} bytes", "shorten it")
