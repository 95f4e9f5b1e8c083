"""What a chat template writes around tools, calls and results, as strings."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from omnidraft.errors import PromptError
from omnidraft.runtime.bundle.jinja_template import Conversation, JinjaTemplate
from omnidraft.runtime.chat.prompt_template import PromptTemplate, trimmed
from omnidraft.runtime.chat.tool_form import ListingSlot, ResultForm, ToolForm
from omnidraft.runtime.grammar.tool_calls import Arguments, CallForm, ToolCall

_INDENTS = (None, 4, 2)
_KEYS: tuple[Arguments, ...] = ("arguments", "parameters")
_TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"What {name} does.",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        },
    }
    for name in ("first_tool", "second_tool")
]
_CALLS = [ToolCall(f"{name}_tool", {"x": "a value"}, f"{name:x<9}") for name in ("first", "second")]
_ID = 9  # characters of their ids
_USER, _SYSTEM, _ANSWER, _LATER = "the user's message", "the system prompt", "an answer", " another message "
_RESULTS = ['a "first" result', 'a "second" result']  # with what JSON escapes


def compile_tools(template: JinjaTemplate, prompt: PromptTemplate) -> tuple[ToolForm | None, str | None]:
    """The strings around tools, or None and why there are none.

    They come from renderings of the template, and are compared with others of it: with and without a system
    prompt, with one and two tools, of calls, their results and later turns.
    """
    if prompt.between is None:
        return None, "the template is compiled for one turn"
    try:
        if template.render([_said("user", _USER)]) == template.render([_said("user", _USER)], _TOOLS):
            return None, "the template lists no tools"
        form = _compiled(template, prompt)
        checked = _checked(form, has_system=prompt.system is not None)
        for tools in (_TOOLS[:1], _TOOLS):
            template.render_ahead(checked, tools)
            for messages in checked:
                text = "".join(_written(form, prompt, messages, tools))
                if text != template.render(messages, tools):
                    return None, "the template has tools in a way that strings cannot express"
    except (PromptError, ValueError) as error:
        return None, f"the template has no tools that strings can express ({error})"
    return form, None


def _compiled(template: JinjaTemplate, prompt: PromptTemplate) -> ToolForm:
    """The strings, from renderings.

    Raises:
        PromptError: the template fails.
        ValueError: a text is not where it is in the templates that are known.
    """
    said = [_said("user", _USER)]
    one, two = template.render(said, _TOOLS[:1]), template.render(said, _TOOLS)
    indent = next((i for i in _INDENTS if json.dumps(_TOOLS[0], indent=i) in one), None)
    texts = [json.dumps(each, indent=indent) for each in _TOOLS]
    before, between, after = _split(two, *texts, end=_USER)
    system = None
    if prompt.system is not None:
        whole = template.render([_said("system", _SYSTEM), *said], _TOOLS[:1])
        system = ListingSlot(*_split(whole, _SYSTEM, texts[0], end=_USER))
    results = _results(template)
    results = replace(results, after=_without(results.after, prompt.begin))
    calls = _calls(template, prompt, results)
    return ToolForm(before, after, system, between, indent, calls, results, _later(template, texts))


def _without(text: str, begin: str) -> str:
    if not text.endswith(begin):
        raise ValueError("no answer begins behind results")
    return text[: len(text) - len(begin)]


def _later(template: JinjaTemplate, texts: Sequence[str]) -> str | None:
    """The text from an answer to the tools, where they stand before the last message."""
    whole = template.render(
        [_said("user", _USER), _said("assistant", _ANSWER), _said("user", _LATER)], _TOOLS
    )
    if whole.index(texts[0]) < whole.index(_ANSWER):
        return None
    return _split(whole, _ANSWER, texts[0])[1]


def _results(template: JinjaTemplate) -> ResultForm:
    """The text around results; an answer without calls is before them, so that nothing of calls is in it."""
    asked = [_said("user", _USER), _said("assistant", _ANSWER)]
    whole = template.render([*asked, *map(_result, _CALLS, _RESULTS)], _TOOLS)
    is_quoted = json.dumps(_RESULTS[0]) in whole
    first, second = map(json.dumps if is_quoted else str, _RESULTS)
    if _CALLS[0].id not in whole:
        _, before, between, after = _split(whole, _ANSWER, first, second)
        return ResultForm(before, between, after, is_quoted)
    ids = [call.id for call in _CALLS]
    _, before, named, between, _, after = _split(whole, _ANSWER, first, ids[0], second, ids[1])
    return ResultForm(before, between, after, is_quoted, named)


def _calls(template: JinjaTemplate, prompt: PromptTemplate, results: ResultForm) -> CallForm:
    """The text of calls, between that of a message and that of a result."""
    whole = template.render(_asked(_CALLS[:1], _RESULTS[:1]), _TOOLS)
    for arguments, id_length in product(_KEYS, (_ID, 0)):
        form = CallForm("", None, "", arguments, id_length)
        if form.object(_CALLS[0]) in whole:
            break
    opened, closed = _split(whole[whole.index(_USER) :], form.object(_CALLS[0]), end=results.before)
    form = replace(form, open=opened.removeprefix(_USER + prompt.suffix), close=closed)
    if _USER in form.open:
        raise ValueError("calls do not follow a message")
    try:
        whole = template.render(_asked(_CALLS, _RESULTS), _TOOLS)
    except PromptError:  # of a model that writes one call in an answer
        return form
    _, between, _ = _split(whole, *map(form.object, _CALLS))
    return replace(form, between=between)


def _split(text: str, *parts: str, end: str = "") -> list[str]:
    """The text before, between and after some parts of it, up to its end or another part."""
    found = []
    for part in parts:
        piece, separator, text = text.partition(part)
        if not separator:
            raise ValueError(f"{part[:20]!r} is not in it")
        found.append(piece)
    return [*found, text.partition(end)[0] if end else text]


def _checked(form: ToolForm, *, has_system: bool) -> list[Conversation]:
    """Conversations on which strings and template must agree."""
    most = 1 if form.calls.between is None else 2
    called = _asked(_CALLS[:most], _RESULTS[:most])
    later = [_said("assistant", _ANSWER), _said("user", _LATER)]
    bodies = [[_said("user", " a message ")], [_said("user", _USER), *later], called, [*called, *later]]
    heads: list[Conversation] = [[], [_said("system", _SYSTEM)]] if has_system else [[]]
    return [[*head, *body] for head in heads for body in bodies]


def _written(
    form: ToolForm, prompt: PromptTemplate, messages: Conversation, tools: Sequence[dict[str, Any]]
) -> list[str]:
    """The text of a conversation by the strings."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    users = [each for each in messages if each["role"] == "user"]
    parts = prompt.parts(len(users), system=system is not None)
    ends = prompt.trimmed(len(users), system=system is not None)
    written = [parts.pop(0)]
    if system is not None:
        system = trimmed(system, ends.pop(0))
        written += [system, parts.pop(0)]
    if users[-1] is not messages[-1]:  # an answer follows, so nothing begins one
        parts[-1] = parts[-1].removesuffix(prompt.begin) if prompt.begin else parts[-1]
    listing, listed = form.listing(tools), 0 if form.later is None else len(users) - 1
    if listed == 0:
        written = form.opening(listing, system)
    results, called = list[str](), ""
    for number, each in enumerate(messages):
        if each["role"] == "user":
            at = users.index(each)
            before = [parts.pop(0)] if at else []
            if at and at == listed:
                before = form.moved(listing)
            behind = parts.pop(0)
            written += [*before, trimmed(each["content"], ends[at]), behind]
        elif each["role"] == "tool":
            results.append(each["content"])
            if number == len(messages) - 1 or messages[number + 1]["role"] != "tool":
                begin = prompt.begin if number == len(messages) - 1 else ""
                written += form.answered(results, begin, called)
        elif each["role"] == "assistant":
            calls = map(form.calls.object, _CALLS[: len(each.get("tool_calls", ()))])
            called = form.calls.open + (form.calls.between or "").join(calls) + form.calls.close
            written.append(called if "tool_calls" in each else prompt.lead + each["content"])
    return written


def _said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


def _asked(calls: Sequence[ToolCall], results: Sequence[str]) -> Conversation:
    """A message, calls and their results."""
    called = [
        {"type": "function", "function": {"name": c.name, "arguments": c.arguments}, "id": c.id}
        for c in calls
    ]
    answer = {**_said("assistant", ""), "tool_calls": called}
    return [_said("user", _USER), answer, *map(_result, calls, results)]


def _result(call: ToolCall, content: str) -> dict[str, Any]:
    return {**_said("tool", content), "tool_call_id": call.id}
