"""Calls of tools: in a grammar, told apart in the stream, and answered."""

from __future__ import annotations

import json
import typing  # noqa: F401 - hints that are strings name it
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from omnidraft import GenerationConfig, LanguageModel, TextSession, ToolCall, load_bundle
from omnidraft.errors import (
    GrammarError,
    OmnidraftError,
    PromptError,
    SessionError,
    SessionFileError,
    SettingError,
)
from omnidraft.grammar import compile_grammar, file_bytes
from omnidraft.grammar.call_grammar import from_calls
from omnidraft.runtime.chat.prompt_template import PromptTemplate, SystemSlot
from omnidraft.runtime.chat.tool_form import ListingSlot, ResultForm, ToolForm
from omnidraft.runtime.chat.tools import read_tools
from omnidraft.runtime.grammar.grammar_file import read_grammar
from omnidraft.runtime.grammar.tool_calls import CallForm, CallStream

QUESTION = "How many legs do 3 cats have?"
SAMPLED = GenerationConfig(max_new_tokens=90, temperature=1.0, seed=5)
CALLS = CallForm("<call>[", ", ", "]</call>", "arguments")
FORM = ToolForm(
    "T:", "\nQ:", ListingSlot("S:", "T:", "\nQ:"), "\n", None, CALLS,
    ResultForm("\nQ:<r>", "</r><r>", "</r>\nA:", is_quoted=False),
)  # fmt: skip
CHAT = PromptTemplate("", "\nA:", "\nQ:", "\nA:", system=SystemSlot("S:", "\nQ:"), tools=FORM)


def legs(animal: Literal["cat", "hen"], count: int = 1, notes: list[str] | None = None) -> int:
    """Counts the legs
    of animals.

    Args:
        animal: the kind of animal
        count (int): how many
    """
    return count * (4 if animal == "cat" else 2) + len(notes or [])


CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "parameters": {"type": "object", "properties": {"utc": {"type": "boolean"}}},
    },
}


PAINT = {
    "type": "function",
    "function": {"name": "paint", "parameters": {
        "type": "object", "properties": {"hue": {"enum": ["red", "blue"]}}, "required": ["hue"]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(bundle: Path) -> LanguageModel:
    """A starter whose template has tools, in few tokens."""
    model = load_bundle(bundle)
    return replace(model, bundle=replace(model.bundle, prompt=CHAT))


def checked(call: ToolCall) -> None:
    """Whether a call is valid by its tool."""
    if call.name == "clock":
        assert all(type(value) is bool for value in call.arguments.values()) and call.arguments.keys() <= {
            "utc"
        }
    else:
        assert call.name == "paint" and call.arguments["hue"] in ("red", "blue") and len(call.arguments) == 1


@pytest.mark.parametrize("mode", ["plain", "trie"])
def test_required_calls_are_valid_and_a_named_tool_is_called_once(loaded: LanguageModel, mode: Any) -> None:
    session = TextSession(loaded)
    for seed in range(4):
        answer = session.chat(
            QUESTION, SAMPLED, tools=[PAINT, CLOCK], tool_choice="required", seed=seed, mode=mode
        ).finish()
        for call in answer.calls:
            checked(call)
        assert answer.calls and answer.answer == "" and answer.text.startswith('<call>[{"name": "')
        assert answer.text.endswith("}]</call>")
        session.reset()
    named = session.chat(QUESTION, SAMPLED, tool_choice="clock").finish()
    assert [call.name for call in named.calls] == ["clock"] and named.stop_reason == "complete"
    several: dict[str, Any] = {"tools": [CLOCK], "tool_choice": "required", "mode": mode}
    counts: dict[int | None, list[int]] = {1: [], None: []}
    for most, seen in counts.items():
        for seed in range(6):
            session.reset()
            answer = session.chat(QUESTION, SAMPLED, most_calls=most, seed=seed, **several).finish()
            seen.append(len(answer.calls))
    assert max(counts[1]) == 1 < max(counts[None])
    for wrong in list[Any]((0, "x", True)):
        with pytest.raises(SettingError, match=f"most_calls {wrong!r} is"):
            session.chat(QUESTION, SAMPLED, most_calls=wrong, **several)


def test_free_text_is_the_targets_own_and_calls_begin_at_the_marker(loaded: LanguageModel) -> None:
    session, plain = TextSession(loaded), TextSession(loaded)
    greedy = replace(SAMPLED, temperature=0.0, max_new_tokens=24)
    auto = session.chat(QUESTION, greedy, tools=[CLOCK]).finish()
    assert auto.text == plain.chat(QUESTION, greedy, tools=[CLOCK], tool_choice="none").finish().text
    assert auto.calls == () and auto.answer == auto.text != ""
    none = plain.regenerate(greedy).finish()
    assert none.text == auto.text and not none.has_grammar


@pytest.mark.parametrize("text", ["Well <call <call>[{}]</call>", "<call>[", "<cal", "a <cal", ""])
def test_a_stream_holds_back_what_may_begin_a_call(text: str) -> None:
    stream, said, called = CallStream(CALLS), "", ""
    for letter in text:
        before, behind = stream.push(letter)
        said, called = said + before, called + behind
        assert "<call>".startswith(called[:6])
    said += stream.end()
    assert (said, called) == (text[: CALLS.start(text)], text[CALLS.start(text) :])
    alone = CallStream(CallForm("", None, "", "parameters"))
    parts = [alone.push(letter) for letter in '{"name": "f"}']
    assert "".join(part for _, part in parts) == '{"name": "f"}'
    assert alone.push("") == ("", "") and CallStream(CALLS).push("{") == ("{", "")


def test_results_are_answered_in_the_conversation(loaded: LanguageModel) -> None:
    session = TextSession(loaded)
    first = session.chat(QUESTION, SAMPLED, tools=[CLOCK], tool_choice="clock").finish()
    with pytest.raises(SessionError, match="there are 2 results of 1 call"):
        session.tool_result("a", "b")
    second = session.tool_result({"hour": 12}, max_new_tokens=8, temperature=0.0).finish()
    prompt = loaded.target_tokenizer.text_of(second.prompt_ids).decode()
    before = loaded.target_tokenizer.text_of(first.prompt_ids).decode()
    result = '\nQ:<r>{"hour": 12}</r>\nA:'
    assert prompt == before + first.text + result
    assert list(second.prompt_ids[: len(first.prompt_ids)]) == list(first.prompt_ids)
    third = session.chat("Thanks.", max_new_tokens=4, temperature=0.0).finish()
    assert (
        loaded.target_tokenizer.text_of(third.prompt_ids).decode().endswith(f"{second.text}\nQ:Thanks.\nA:")
    )
    listed = TextSession(loaded)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function",
             "function": {"name": "clock", "arguments": json.dumps(first.calls[0].arguments)}}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"hour": 12}'},
    ]  # fmt: skip
    again = listed.chat(messages, tools=[CLOCK], max_new_tokens=8, temperature=0.0).finish()
    assert loaded.target_tokenizer.text_of(again.prompt_ids).decode() == prompt
    own = session.chat(messages, tools=[CLOCK], max_new_tokens=8, temperature=0.0)
    assert own.prompt_ids == second.prompt_ids, "an answer of this session keeps its ids"
    own.finish()
    assert session.undo() == QUESTION and session.turns == []


def test_calls_with_ids_are_answered_by_them_and_tools_move_to_the_last_message(
    loaded: LanguageModel,
) -> None:
    """The form of Mistral."""
    calls = replace(CALLS, id_length=9)
    results = ResultForm("\nQ:<r>", "</r><r>", "</r>\nA:", is_quoted=False, named=" of ")
    form = replace(FORM, calls=calls, results=results, later="\nT:")
    mistral = replace(loaded, bundle=replace(loaded.bundle, prompt=replace(CHAT, tools=form)))
    session = TextSession(mistral)
    first = session.chat(
        QUESTION, SAMPLED, tools=[CLOCK], tool_choice="required", most_calls=2, seed=4
    ).finish()
    text_of = loaded.target_tokenizer.text_of
    before, told = text_of(first.prompt_ids).decode(), [f"result {i}" for i in range(len(first.calls))]
    assert all(len(call.id) == 9 and call.id.isalnum() and call.id in first.text for call in first.calls)
    second = session.tool_result(*told, max_new_tokens=4, temperature=0.0, tool_choice="none").finish()
    named = "</r><r>".join(f"{r} of {c.id}" for r, c in zip(told, first.calls, strict=True))
    assert text_of(second.prompt_ids).decode() == f"{before}{first.text}\nQ:<r>{named}</r>\nA:"
    third = session.chat("Thanks.", max_new_tokens=4, temperature=0.0, tool_choice="none")
    prompt = text_of(third.prompt_ids).decode()
    assert prompt.startswith(QUESTION + "\nA:<call>[") and prompt.count("T:") == 1
    assert f"{second.text}\nT:" in prompt and prompt.endswith("\nQ:Thanks.\nA:")


def test_old_turns_are_left_out_with_the_results_of_their_calls(loaded: LanguageModel) -> None:
    session = TextSession(loaded)
    session.drops_oldest = True
    session.chat(QUESTION, SAMPLED, tools=[CLOCK], tool_choice="clock").finish()
    session.tool_result("12", max_new_tokens=4, temperature=0.0, tool_choice="none").finish()
    size = session.context_size
    while not (asked := session.chat("More?", max_new_tokens=size // 8, tool_choice="none")).dropped_turns:
        asked.finish()
    prompt = loaded.target_tokenizer.text_of(asked.prompt_ids).decode()
    assert prompt.startswith("T:") and "<r>" not in prompt and asked.dropped_turns >= 2


def test_results_come_in_the_order_of_their_calls(loaded: LanguageModel) -> None:
    call = {"type": "function", "function": {"name": "clock", "arguments": {}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x", **call}, {"id": "y", **call}]},
        {"role": "tool", "tool_call_id": "y", "content": "second"},
        {"role": "tool", "tool_call_id": "x", "content": "first"},
    ]
    answer = TextSession(loaded).chat(messages, max_new_tokens=4)
    prompt = loaded.target_tokenizer.text_of(answer.prompt_ids).decode()
    assert prompt.index("first") < prompt.index("second")
    with pytest.raises(PromptError, match="message 3 on are fewer than the 2 calls"):
        TextSession(loaded).chat(messages[:3])
    late: list[dict[str, Any]] = [*messages[:2], {"role": "user", "content": "and?"}, messages[2]]
    for broken in (late, [messages[0], messages[2]]):
        with pytest.raises(PromptError, match=r"the role tool where one of the (assistant|user) is due"):
            TextSession(loaded).chat(broken)
    bad = ("[", '{"a": NaN}', '{"a": 1e999}', {"a": float("nan")}, {"a": b"x"}, {"a": {1}}, {(1, 2): 3})
    for calls in ("x", [1], *([{"function": {"name": "clock", "arguments": each}}] for each in bad)):
        with pytest.raises(PromptError, match="the calls of message 2 are not of OpenAI's form"):
            TextSession(loaded).chat([messages[0], {**messages[1], "tool_calls": calls}, *messages[2:]])


def test_a_function_becomes_a_schema() -> None:
    [tool] = read_tools([legs])
    assert tool.value["function"]["description"] == "Counts the legs of animals."
    assert tool.arguments == {
        "type": "object",
        "properties": {
            "animal": {"enum": ["cat", "hen"], "description": "the kind of animal"},
            "count": {"type": "integer", "description": "how many"},
            "notes": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        },
        "required": ["animal"],
    }


def untyped(x):  # type: ignore[no-untyped-def]
    return x


def odd(x: Path) -> None: ...


def hinted(hint: Any) -> Any:
    def tool(x: int) -> None: ...

    tool.__annotations__["x"] = hint
    return tool


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([CLOCK, CLOCK], "two tools have the name clock"),
        ([function(name="auto")], "the name auto, or it is a choice"),
        ([untyped], "the argument x of the tool untyped has no type hint"),
        ([odd], "the argument x of the tool odd has the type"),
        ([lambda: 1], "the tool's name is '<lambda>'"),
        ([print], "the argument \\*args of the tool print"),
        ([{"name": "f"}], "is not of OpenAI's form"),
        ([function(name="a b")], "the tool's name is 'a b'"),
        (
            [function(parameters={"type": "string"})],
            "parameters of the tool f are no JSON Schema of an object",
        ),
        ([function(parameters={"type": "object", "x": {1}})], "the tool f is no JSON value"),
        *(
            ([hinted(hint)], "the argument x of the tool tool has the type")
            for hint in ("typing.List", "typing.Dict", "dict[str]", [int])
        ),
        *(
            ([hinted(hint)], "the type hints of the tool tool cannot be read")
            for hint in ("os.no", "list[", "1/0")
        ),
        ([max], "the type hints of the tool max cannot be read"),
        ([int], "the (type hints|arguments?|tool's name).* int"),
        ([function(description="\ud800")], "the tool f holds bytes that are not UTF-8"),
        (
            [function(parameters={"type": "object", "default": "\ud800"})],
            "the tool f holds bytes that are not",
        ),
        ([function(parameters={"type": "object", "default": float("nan")})], "the tool f is no JSON value"),
        ([function(description="x" * (1 << 18))], "more than 262144 bytes"),
        ([function(name=f"f{i}") for i in range(129)], "there are 129 tools"),
        ("clock", "the tools are a str"),
        ([function(parameters={"type": "object", "$dynamicRef": "#a"})], "the tool f: the schema at # has"),
    ],
)
def test_tools_that_are_refused_change_nothing(loaded: LanguageModel, tools: Any, said: str) -> None:
    session = TextSession(loaded)
    with pytest.raises((PromptError, GrammarError), match=said):
        session.chat(QUESTION, tools=tools)
    assert session.answer is None and session.text.tools == ()


def test_a_conversation_with_tools_is_saved_and_goes_on(loaded: LanguageModel, tmp_path: Path) -> None:
    session, other, file = TextSession(loaded), TextSession(loaded), tmp_path / "talk.session"
    greedy = GenerationConfig(max_new_tokens=6, temperature=0.0, mode="plain", ignore_eos=True)
    first = session.chat(QUESTION, SAMPLED, tools=[CLOCK], tool_choice="clock").finish()
    session.save(file)
    other.load(file)
    assert other.answer is not None and other.answer.calls == first.calls
    assert other.text.tools == session.text.tools and other.answer.answer == ""
    begun = session.tool_result("12", config=greedy, tool_choice="none")
    next(iter(begun))
    session.save(file)
    whole = begun.finish()
    again = other.tool_result("12", config=greedy, tool_choice="none").finish()
    assert (again.prompt_ids, again.token_ids) == (whole.prompt_ids, whole.token_ids)
    other.load(file)
    assert other.resume().finish().token_ids == whole.token_ids
    later = session.chat("Thanks.", greedy, tool_choice="none").prompt_ids
    assert other.chat("Thanks.", greedy, tool_choice="none").prompt_ids == later
    assert session.copy().regenerate(greedy).prompt_ids == later
    called = other.chat("Again?", SAMPLED, tool_choice="clock").finish().calls
    assert [call.name for call in called] == ["clock"]


def test_a_file_with_other_tools_is_refused(loaded: LanguageModel, bundle: Path, tmp_path: Path) -> None:
    session, file = TextSession(loaded), tmp_path / "talk.session"
    session.chat(QUESTION, SAMPLED, tools=[CLOCK], tool_choice="clock").finish()
    bare = replace(loaded, bundle=replace(loaded.bundle, prompt=PromptTemplate("", "", "", "")))
    session.save(file)
    with pytest.raises(SessionFileError, match="no chat template that lists any") as refused:
        TextSession(bare).load(file)
    assert refused.value.fault == "state"
    indented = replace(
        loaded, bundle=replace(loaded.bundle, prompt=replace(CHAT, tools=replace(FORM, indent=2)))
    )
    with pytest.raises(SessionFileError, match="in another form"):
        TextSession(indented).load(file)


def test_a_grammar_of_tools_brings_them(loaded: LanguageModel) -> None:
    tools = read_tools([CLOCK, PAINT])
    grammar = replace(
        from_calls({"clock": tools[0].arguments}, CALLS, free=False, most=1),
        tools=FORM.listing([tool.value for tool in tools]),
    )
    grammar = read_grammar(file_bytes(grammar))
    session = TextSession(loaded)
    answer = session.chat(QUESTION, SAMPLED, grammar=grammar).finish()
    named = TextSession(loaded).chat(QUESTION, SAMPLED, tools=[CLOCK, PAINT], tool_choice="clock").finish()
    assert (answer.prompt_ids, answer.token_ids, answer.calls) == (
        named.prompt_ids,
        named.token_ids,
        named.calls,
    )
    assert session.tool_result("12", max_new_tokens=4, tool_choice="none").finish().text
    for other in (replace(CALLS, open="<tool>["), replace(CALLS, open="")):
        form = replace(FORM, calls=other)
        strange = TextSession(
            replace(loaded, bundle=replace(loaded.bundle, prompt=replace(CHAT, tools=form)))
        )
        with pytest.raises(GrammarError, match=r"in another form than this bundle \(its calls"):
            strange.chat(QUESTION, SAMPLED, grammar=grammar)


def test_other_refusals(loaded: LanguageModel, bundle: Path) -> None:
    session = TextSession(loaded)
    for choice in ("other", "required"):
        with pytest.raises(SettingError, match=f"tool_choice is '{choice}', and the tools are none"):
            session.chat(QUESTION, tool_choice=choice)
    with pytest.raises(SettingError, match="has a grammar and must call a tool"):
        session.chat(QUESTION, tools=[CLOCK], tool_choice="required", grammar={"type": "null"})
    session.chat(QUESTION, tools=[CLOCK], grammar={"type": "null"}, max_new_tokens=8).finish()
    assert session.answer is not None and session.answer.parsed is None and session.answer.calls == ()
    bare = load_bundle(bundle)
    bare = replace(bare, bundle=replace(bare.bundle, prompt=PromptTemplate("", "", "", "")))
    with pytest.raises(OmnidraftError, match="no chat template that tools could be listed in"):
        TextSession(bare).chat(QUESTION, tools=[CLOCK])


def test_a_tool_whose_schema_repeats_objects_is_compiled_with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 9} for i in range(6)}}
    schema = {"$defs": {"names": names}, "type": "object", "required": ["q7"],
              "properties": {f"q{i}": {"$ref": "#/$defs/names"} for i in range(8)}}  # fmt: skip
    monkeypatch.setattr(compile_grammar, "MOST_WORK", 30_000)  # of the first try
    grammar = from_calls({"fill": schema}, CALLS, free=True)
    assert len(grammar.calls) > 0
    call = b'<call>[{"name": "fill", "arguments": {"q1": {"p3": "x"}, "q7": {}}}]</call>'
    assert grammar.matches(b"Well. " + call)
    assert not grammar.matches(call.replace(b', "q7": {}', b""))
