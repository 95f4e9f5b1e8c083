"""The compiled form of a chat template: strings around messages, which need no template engine.

Format: spec/03-bundle.md, "The prompt"; how a conversation becomes ids: spec/01-tokens.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from omnidraft.errors import PromptError
from omnidraft.runtime.chat.tool_form import (
    ToolForm,
    generic_form,
    optional_text,
    prompt_text,
    read_tool_form,
)
from omnidraft.runtime.disk.json_fields import array, mapping, text

MAX_TAG = 64  # bytes of a think tag
EarlierThoughts = Literal["keep", "cut", "trim"]
TrimmedEnd = Literal[
    "system_start", "system_end", "behind_start", "first_start", "first_end", "later_start", "later_end",
    "answer_start", "answer_end",
]  # fmt: skip
TRIMMED_ANSWERS: tuple[TrimmedEnd, ...] = ("answer_start", "answer_end")
Ends = tuple[bool, bool]  # of a message: whether white space is left out at its start and at its end


class Template(Protocol):
    """The text around messages; control tokens are read here and only here."""

    def parts(self, turns: int, *, system: bool = False) -> list[str]:
        """The strings around the messages of a conversation: before, between and after all of them.

        They are 2 * turns strings: before and after the message of each turn. The string before a later
        message begins right after the answer to the message before it. With a system prompt there is one
        more, at the beginning: the strings before and after the system prompt take the place of the first.

        Raises:
            PromptError: the template cannot render a conversation of this length, or no system prompt.
        """

    def trimmed(self, turns: int, *, system: bool = False) -> list[Ends]:
        """At which ends the template leaves out the white space of each message.

        The messages are the system prompt, if there is one, and those of the user.
        """


@dataclass(frozen=True)
class SystemSlot:
    """The text around a system prompt; with it, this takes the place of the template's prefix."""

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
        trim: the ends of messages at which the template leaves out white space: `first` is the first message
            of the user, whose start is `behind_start` where a system prompt stands before it, `later` each
            later one, `answer` an answer that a program gives.
        tools: how tools are listed, called and answered; None where the template has no text for them.
    """

    prefix: str
    suffix: str
    between: str | None = None
    after: str | None = None
    begin: str = ""
    lead: str = ""
    system: SystemSlot | None = None
    think: ThinkTags | None = None
    trim: tuple[TrimmedEnd, ...] = TRIMMED_ANSWERS
    tools: ToolForm | None = None

    @property
    def tool_form(self) -> ToolForm | None:
        """How tools are listed, called and answered: as the template has it, else in the generic form.

        None for a model without a chat template, or without a place for a system prompt or later turns.
        """
        if self.tools is not None or self.system is None or self.between is None or self.after is None:
            return self.tools
        return generic_form(self.system.before, self.system.after, self.between, self.after)

    @property
    def is_bare(self) -> bool:
        """Whether no text stands around messages: the model has no template, and continues what it reads."""
        return not (self.suffix or self.begin or self.system) and self.between == self.after == ""

    @property
    def default_system(self) -> str | None:
        """The system prompt that the template writes where none is given; None if it writes none."""
        if self.system is None:
            return None
        before, after = self.system.before, self.system.after
        if not (self.prefix.startswith(before) and self.prefix.endswith(after)):
            return None
        return self.prefix[len(before) : len(self.prefix) - len(after)].strip() or None

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
            nothing = "this model has no chat template, and so no place for a system prompt"
            raise PromptError(
                nothing if self.is_bare else "this bundle's chat template has no place for a system prompt",
                "put the instructions into the first message",
            )
        first = [self.system.before, self.system.after] if system and self.system else [self.prefix]
        later = [self.between or "", self.after or ""] * (turns - 1)
        parts = [*first, self.suffix, *later]
        return [*parts[:-1], parts[-1] + self.begin]

    def trimmed(self, turns: int, *, system: bool = False) -> list[Ends]:
        """At which ends white space is left out of each message (see `Template`)."""
        first = self._ends("behind_start" if system else "first_start", "first_end")
        later = [self._ends("later_start", "later_end")] * (turns - 1)
        return [*([self._ends("system_start", "system_end")] if system else []), first, *later]

    @property
    def trimmed_answer(self) -> Ends:
        """At which ends white space is left out of an answer that a program gives."""
        return self._ends("answer_start", "answer_end")

    def _ends(self, start: TrimmedEnd, end: TrimmedEnd) -> Ends:
        return start in self.trim, end in self.trim


def trimmed(text: str, ends: Ends) -> str:
    """A text without the white space at these ends, as jinja2's `trim` leaves it out."""
    text = text.lstrip() if ends[0] else text
    return text.rstrip() if ends[1] else text


def read_prompt(data: dict[str, Any]) -> PromptTemplate:
    """The compiled template in the field `prompt` of a manifest.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    between, after = optional_text(data, "between"), optional_text(data, "after")
    if (between is None) != (after is None):
        raise ValueError("one of prompt.between and prompt.after is null")
    return PromptTemplate(
        prompt_text(data, "prefix"),
        prompt_text(data, "suffix"),
        between,
        after,
        prompt_text(data, "begin"),
        prompt_text(data, "lead"),
        None if data["system"] is None else _system(mapping(data["system"])),
        None if data["think"] is None else _think(mapping(data["think"])),
        TRIMMED_ANSWERS if data.get("trim") is None else _trim(data["trim"]),
        None if data.get("tools") is None else read_tool_form(mapping(data["tools"])),
    )


def _system(data: dict[str, Any]) -> SystemSlot:
    return SystemSlot(prompt_text(data, "before"), prompt_text(data, "after"))


def _trim(data: object) -> tuple[TrimmedEnd, ...]:
    known: Sequence[TrimmedEnd] = get_args(TrimmedEnd)
    names = array(data, len(known))
    ends = tuple(end for each in names for end in known if end == each)
    if len(ends) < len(names) or len(set(ends)) < len(ends):
        raise ValueError(f"prompt.trim {data!r:.200} does not name different ends of messages")
    return ends


def _think(data: dict[str, Any]) -> ThinkTags:
    earlier = data["earlier"]
    if earlier not in get_args(EarlierThoughts):
        raise ValueError(f"prompt.think.earlier {earlier!r:.80} is not keep, cut or trim")
    tags = text(data["open"], MAX_TAG), text(data["close"], MAX_TAG)
    if not all(tags) or tags[0] == tags[1]:
        raise ValueError(f"prompt.think has the tags {tags!r:.200}")
    return ThinkTags(*tags, earlier)
