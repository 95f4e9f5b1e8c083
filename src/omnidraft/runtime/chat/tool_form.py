"""How a model is told of tools and of their results, as strings. Format: spec/03-bundle.md, "Tools"."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.errors import GrammarError
from omnidraft.runtime.disk.json_fields import integer, mapping, text
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.tool_calls import CallForm

MAX_PROMPT = 1 << 16  # bytes of each text of the field `prompt`
MOST_INDENT, MOST_ID = 8, 64
GENERIC_CALLS = CallForm("<tool_call>[", ", ", "]</tool_call>", "arguments")
_TOLD = "You can call these tools. Each line describes one, with the JSON Schema of its arguments.\n<tools>\n"
_ASKED = (
    "\n</tools>\nTo call tools, write a list of calls and nothing behind it:\n"
    '<tool_call>[{"name": "the tool", "arguments": {"an argument": "its value"}}]</tool_call>'
)
_RESULTS = "The result of the call:\n<tool_response>\n", "\n</tool_response>\nSay it in a sentence."


@dataclass(frozen=True)
class ListingSlot:
    """The text around a system prompt and the tools: before, between, and after both."""

    before: str
    between: str
    after: str


@dataclass(frozen=True)
class ResultForm:
    """The text around results, up to where an answer begins.

    Attributes:
        before, between, after: all results, two of them.
        is_quoted: a result that is text is written as a JSON string.
        named: between a result and the id of its call; None where results have no ids.
    """

    before: str
    between: str
    after: str
    is_quoted: bool
    named: str | None = None


@dataclass(frozen=True)
class ToolForm:
    """The text around tools, calls and results; control tokens are read here, never in what is between.

    Attributes:
        before, after: from the beginning of the text to the tools, and from them to the first message.
        system: the same with a system prompt before the tools; None where there is no place for one.
        between: two tools.
        indent: of the JSON of a tool; None for one line.
        calls, results: how they are written.
        later: from the end of an answer to the tools, where they stand before the last message of the user;
            None where they stand before the first.
    """

    before: str
    after: str
    system: ListingSlot | None
    between: str
    indent: int | None
    calls: CallForm
    results: ResultForm
    later: str | None = None

    def listing(self, tools: Sequence[dict[str, Any]]) -> str:
        """The text of tools in OpenAI's form."""
        return self.between.join(json.dumps(each, ensure_ascii=False, indent=self.indent) for each in tools)

    def listed(self, listing: str) -> list[Any]:
        """The JSON values of the tools in a listing.

        Raises:
            ValueError: it is none of this form.
        """
        decoder, values, at = json.JSONDecoder(), list[Any](), 0
        while True:
            value, at = decoder.raw_decode(listing, at)
            values.append(value)
            if at == len(listing):
                break
            if not listing.startswith(self.between, at):
                raise ValueError(f"the tools go on with {listing[at : at + 20]!r}")
            at += len(self.between)
        if self.listing(values) != listing:
            raise ValueError("the tools are written in another form")
        return values

    def tools_in(self, grammar: Grammar) -> list[Any]:
        """The JSON values of the tools that a grammar lists.

        Raises:
            GrammarError: it was compiled for another form of calls.
        """
        try:
            if self.calls.fits(grammar):
                return self.listed(grammar.tools)
            raise ValueError("its calls are others")
        except (RecursionError, ValueError) as error:
            raise GrammarError(
                f"the grammar has tools in another form than this bundle ({error!s:.80})",
                "compile it for this bundle",
                fault="calls",
            ) from None

    def opening(self, listing: str, system: str | None) -> list[str]:
        """The strings before the first message, as `Tokenizer.encode_prompt` takes them."""
        if system is None:
            return [self.before, listing, self.after]
        assert self.system is not None, "the template was asked for its place of a system prompt"
        return [self.system.before, system, self.system.between, listing, self.system.after]

    def moved(self, listing: str) -> list[str]:
        """The strings before a later message, where the tools move to the last one."""
        return [self.later or "", listing, self.after]

    def answered(self, results: Sequence[str], begin: str, called: str = "") -> list[str]:
        """The strings from the end of the calls to the answer to their results.

        Args:
            begin: of the template, before an answer that is to be written.
            called: the answer with the calls, which has their ids.
        """
        parts, form = [self.results.before], self.results
        ids = [call.id for call in self.calls.read(called)] if form.named is not None else []
        for number, result in enumerate(results):
            parts += [json.dumps(result, ensure_ascii=False) if form.is_quoted else result]
            name = ids[number] if number < len(ids) else ""
            parts += [form.between if form.named is None else form.named + name + form.between]
        last = parts.pop().removesuffix(form.between)
        return [*parts, last + form.after + begin]


def generic_form(before: str, after: str, between: str, behind: str) -> ToolForm:
    """The form for a model whose chat template has none.

    Args:
        before, after: of the template, around a system prompt.
        between, behind: of the template, around a later message.
    """
    results = ResultForm(
        between + _RESULTS[0],
        "\n</tool_response>\n<tool_response>\n",
        _RESULTS[1] + behind,
        is_quoted=False,
    )
    slot = ListingSlot(before, "\n\n" + _TOLD, _ASKED + after)
    return ToolForm(before + _TOLD, _ASKED + after, slot, "\n", None, GENERIC_CALLS, results)


def read_tool_form(data: dict[str, Any]) -> ToolForm:
    """The field `prompt.tools` of a manifest.

    Raises:
        KeyError, TypeError, ValueError: a field is missing, of another kind, or out of its range.
    """
    calls, results = mapping(data["calls"]), mapping(data["results"])
    indent, arguments, quoted = data["indent"], calls["arguments"], results["is_quoted"]
    if arguments not in ("arguments", "parameters") or type(quoted) is not bool:
        raise ValueError(f"prompt.tools has calls {calls!r:.200} or results {results!r:.200}")
    if indent is not None and not (type(indent) is int and 0 <= indent <= MOST_INDENT):
        raise ValueError(f"prompt.tools.indent {indent!r:.40} is not null or 0 to {MOST_INDENT}")
    calling = CallForm(
        prompt_text(calls, "open"),
        optional_text(calls, "between"),
        prompt_text(calls, "close"),
        arguments,
        integer(calls["id_length"], 0, MOST_ID),
    )
    answering = ResultForm(
        *_around(results),
        quoted,
        optional_text(results, "named"),
    )
    return ToolForm(
        prompt_text(data, "before"),
        prompt_text(data, "after"),
        None if data["system"] is None else ListingSlot(*_around(mapping(data["system"]))),
        prompt_text(data, "between"),
        indent,
        calling,
        answering,
        optional_text(data, "later"),
    )


def _around(data: dict[str, Any]) -> tuple[str, str, str]:
    return prompt_text(data, "before"), prompt_text(data, "between"), prompt_text(data, "after")


def prompt_text(data: dict[str, Any], name: str) -> str:
    """A text of the field `prompt`, or of a field in it."""
    return text(data[name], MAX_PROMPT)


def optional_text(data: dict[str, Any], name: str) -> str | None:
    """The same; None where it is null."""
    return None if data[name] is None else prompt_text(data, name)
