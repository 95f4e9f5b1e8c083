"""The compiled form of a chat template: strings around messages, which need no template engine.

Format: spec/03-bundle.md, "The prompt"; how a conversation becomes ids: spec/01-tokens.md.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from omnidraft.errors import PromptError
from omnidraft.runtime.disk.json_fields import mapping, text

MAX_PROMPT = 1 << 16  # bytes of each text of the field `prompt`
MAX_TAG = 64  # bytes of a think tag
EarlierThoughts = Literal["keep", "cut", "trim"]


class Template(Protocol):
    """The text around messages; control tokens are read here and only here."""

    def parts(self, turns: int, *, system: bool = False) -> list[str]:
        """The strings around the messages of a conversation: before, between and after all of them.

        They are 2 * turns strings: before and after the message of each turn. The string before a later
        message begins right after the answer to the message before it. With a system prompt there is one
        more, at the beginning: the strings before and after the system prompt take the place of the first.

        Args:
            turns: number of messages by the user.
            system: whether a system prompt stands before the first message.

        Raises:
            PromptError: the template cannot render a conversation of this length, or no system prompt.
        """


@dataclass(frozen=True)
class SystemSlot:
    """The text around a system prompt; with it, this takes the place of the template's prefix.

    Attributes:
        before: from the beginning of the conversation to the system prompt.
        after: from the system prompt to the first message.
    """

    before: str
    after: str


@dataclass(frozen=True)
class ThinkTags:
    """The tags around what a model thinks before it answers.

    Attributes:
        open, close: the tags, such as `<think>` and `</think>`.
        earlier: what a conversation keeps of the thought of an earlier answer: "keep" keeps all of it, "cut"
            removes the answer's text up to the end of the close tag, "trim" also the line feeds behind it.
    """

    open: str
    close: str
    earlier: EarlierThoughts


@dataclass(frozen=True)
class PromptTemplate:
    """The text around messages; control tokens are read only here, never in a message.

    Attributes:
        prefix, suffix: before and after the first message.
        between: from the end of an answer to the next message.
        after: between that message and its answer. Both are None if strings cannot express the model's chat
            template in several turns.
        begin: what follows `suffix` or `after` before the answer that is to be written, and not before an
            earlier answer.
        lead: white space that the model writes at the beginning of an answer; an answer that a program
            gives gets it.
        system: the place of a system prompt; None where the template has none, or strings cannot express it.
        think: the tags of thoughts; None for a model that writes none.
    """

    prefix: str
    suffix: str
    between: str | None = None
    after: str | None = None
    begin: str = ""
    lead: str = ""
    system: SystemSlot | None = None
    think: ThinkTags | None = None

    def parts(self, turns: int, *, system: bool = False) -> list[str]:
        """The strings around the messages of a conversation (see `Template`).

        Raises:
            PromptError: several turns, with a template that was compiled for one; or a system prompt, and the
                template has no place for one.
        """
        if turns > 1 and (self.between is None or self.after is None):
            raise PromptError(
                "this bundle's chat template serves a single turn without jinja2",
                "install jinja2, or begin a new conversation",
            )
        if system and self.system is None:
            raise PromptError(
                "this bundle's chat template has no place for a system prompt",
                "put the instructions into the first message",
            )
        first = [self.system.before, self.system.after] if system and self.system else [self.prefix]
        later = [self.between or "", self.after or ""] * (turns - 1)
        parts = [*first, self.suffix, *later]
        return [*parts[:-1], parts[-1] + self.begin]


def read_prompt(data: dict[str, Any]) -> PromptTemplate:
    """The compiled template in the field `prompt` of a manifest.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    later = (data[name] for name in ("between", "after"))
    between, after = (None if value is None else text(value, MAX_PROMPT) for value in later)
    if (between is None) != (after is None):
        raise ValueError("one of prompt.between and prompt.after is null")
    return PromptTemplate(
        text(data["prefix"], MAX_PROMPT),
        text(data["suffix"], MAX_PROMPT),
        between,
        after,
        text(data["begin"], MAX_PROMPT),
        text(data["lead"], MAX_PROMPT),
        None if data["system"] is None else _system(mapping(data["system"])),
        None if data["think"] is None else _think(mapping(data["think"])),
    )


def _system(data: dict[str, Any]) -> SystemSlot:
    return SystemSlot(text(data["before"], MAX_PROMPT), text(data["after"], MAX_PROMPT))


def _think(data: dict[str, Any]) -> ThinkTags:
    earlier = data["earlier"]
    if earlier not in get_args(EarlierThoughts):
        raise ValueError(f"prompt.think.earlier {earlier!r:.80} is not keep, cut or trim")
    tags = text(data["open"], MAX_TAG), text(data["close"], MAX_TAG)
    if not all(tags) or tags[0] == tags[1]:
        raise ValueError(f"prompt.think has the tags {tags!r:.200}")
    return ThinkTags(*tags, earlier)
