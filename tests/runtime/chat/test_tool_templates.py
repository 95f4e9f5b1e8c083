"""Tools, calls and results in compiled templates against jinja2."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from omnidraft.checkpoints.compile_template import CompiledTemplate, compile_template
from omnidraft.runtime.chat.prompt_template import PromptTemplate, read_prompt
from omnidraft.runtime.grammar.tool_calls import CallForm, ToolCall
from omnidraft.runtime.session.conversation import ToolText, Turn, conversation_ids, given_turn
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from support.chat_templates import CHATML, LLAMA_TOOLS, MISTRAL_TOOLS, NEMO_TOOLS, QWEN_TOOLS, TOOLS_LAST
from support.tiny_tokenizers import byte_level

pytest.importorskip("jinja2")

CONTROLS = [
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "[INST]", "[/INST]"),
    *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
]
MESSAGE = 'Is that <s> all, or "more"?'
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"É {name}", "parameters": parameters}}
    for name, parameters in (("a", {"type": "object"}), ("b", {"type": "object", "required": ["x"]}))
]
CALLS = [ToolCall("a", {}, "D681PevKs"), ToolCall("b", {"x": ["é", 1.5, None]}, "1234567890")]


@pytest.fixture(scope="module")
def tokenizer() -> LibraryTokenizer:
    return LibraryTokenizer(byte_level(controls=CONTROLS))


def compiled(place: Path, source: str, tokenizer: LibraryTokenizer) -> CompiledTemplate:
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": source}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return compile_template(place, tokenizer)


def written(tokenizer: LibraryTokenizer, ids: list[int]) -> str:
    names = {control.id: name.encode() for name, control in tokenizer.controls.items()}
    return b"".join(names.get(i) or tokenizer.text_of([i]) for i in ids).decode()


@pytest.mark.parametrize(
    ("source", "calls", "system"),
    [
        *((QWEN_TOOLS, CALLS, system) for system in (None, "\tBe brief. ")),
        *((LLAMA_TOOLS, CALLS[1:], system) for system in (None, "\tBe brief. ")),
        *((source, CALLS, None) for source in (MISTRAL_TOOLS, NEMO_TOOLS)),
    ],
)
def test_a_conversation_with_tools_is_what_jinja_makes_of_it(
    source: str, calls: list[ToolCall], system: str | None, tokenizer: LibraryTokenizer, tmp_path: Path
) -> None:
    """A message, calls with and without text before them, results, an answer, and another message."""
    result = compiled(tmp_path, source, tokenizer)
    prompt, form = result.prompt, result.prompt.tools
    assert form is not None and result.jinja is not None and result.no_tools is None
    ids = ["D681PevKs", "000000001"]  # the second is none of Mistral's
    called = [
        {"function": {"name": c.name, "arguments": c.arguments}, "type": "function", "id": each}
        for c, each in zip(calls, ids, strict=False)
    ]
    results = tuple(f'result <s> "{call.name}"\n' for call in calls)
    content = "Wait." if source == QWEN_TOOLS else ""  # the other templates leave such a text out
    messages: list[dict[str, Any]] = [
        *([] if system is None else [{"role": "system", "content": system}]),
        {"role": "user", "content": f" {MESSAGE}\n"},
        {"role": "assistant", "content": content, "tool_calls": called},
        *({"role": "tool", "content": r, "tool_call_id": i} for r, i in zip(results, ids, strict=False)),
        {"role": "assistant", "content": "So it is."},
        {"role": "user", "content": MESSAGE},
    ]
    turns = [
        given_turn(tokenizer, prompt, f" {MESSAGE}\n", content, calls),
        given_turn(tokenizer, prompt, Turn("", results=results), "So it is."),
    ]
    text = ToolText(
        form, form.listing(TOOLS), prompt.begin, lambda ids: written(tokenizer, list(ids)).encode()
    )
    for upto, asked in ((1, Turn("", results=results)), (2, Turn(MESSAGE))):
        read = conversation_ids(tokenizer, prompt, turns[:upto], asked, system, text)
        end = len(messages) - 2 * (2 - upto)
        assert written(tokenizer, read) == result.jinja.render(messages[:end], TOOLS)


def test_the_record_is_read_as_it_is_written(tokenizer: LibraryTokenizer, tmp_path: Path) -> None:
    for source in (QWEN_TOOLS, LLAMA_TOOLS, MISTRAL_TOOLS, CHATML):
        prompt = compiled(tmp_path, source, tokenizer).prompt
        record = json.loads(json.dumps(asdict(prompt)))
        assert read_prompt(record) == prompt
    record = json.loads(json.dumps(asdict(compiled(tmp_path, QWEN_TOOLS, tokenizer).prompt)))
    for name, value in (("indent", True), ("indent", 99), ("before", 1), ("calls", None), ("system", [])):
        broken = {**record, "tools": {**record["tools"], name: value}}
        with pytest.raises((KeyError, TypeError, ValueError)):
            read_prompt(broken)
    with pytest.raises(ValueError, match="calls"):
        read_prompt(
            record | {"tools": record["tools"] | {"calls": record["tools"]["calls"] | {"arguments": "x"}}}
        )


@pytest.mark.parametrize(
    ("source", "reason"), [(CHATML, "lists no tools"), (TOOLS_LAST, "strings"), (None, "no chat template")]
)
def test_other_templates_have_the_generic_form_or_none(
    source: str | None, reason: str, tokenizer: LibraryTokenizer, tmp_path: Path
) -> None:
    result = (
        compile_template(tmp_path, tokenizer) if source is None else compiled(tmp_path, source, tokenizer)
    )
    assert result.prompt.tools is None and result.no_tools is not None and reason in result.no_tools
    form = result.prompt.tool_form
    assert (form is None) == (result.prompt.system is None)
    if form is not None:
        opening = form.opening("LIST", "Be brief.")
        assert opening[0] == "<|im_start|>system\n" and opening[1:4:2] == ["Be brief.", "LIST"]
        assert form.answered(["12"], "")[0].startswith("<|im_end|>\n<|im_start|>user\n")


@pytest.mark.parametrize(
    ("form", "marker"),
    [
        (CallForm("<tool_call>\n", "", "", "arguments"), "<tool_call>"),
        (CallForm("[TOOL_CALLS] [", ", ", "]", "arguments"), "[TOOL_CALLS]"),
        (CallForm("", None, "", "parameters"), '{"name": "'),
        (CallForm("\ncall: ", None, "", "parameters"), "call: "),
        (CallForm("[TOOL_CALLS] [", ", ", "]", "arguments", 10), "[TOOL_CALLS]"),
    ],
)
def test_the_marker_of_calls(form: CallForm, marker: str) -> None:
    assert form.marker == marker
    text = "Sure. " + form.open + form.object(CALLS[1])
    call = CALLS[1] if form.id_length else replace(CALLS[1], id="")
    assert form.read(text) == (() if form.is_whole_answer else (call,))
    assert form.read(form.open + form.object(CALLS[1])) == (call,)
    assert form.read(form.open + form.object(CALLS[1])[:-1]) == ()


def test_a_bare_model_has_no_form() -> None:
    assert PromptTemplate("<s>", "", "", "").tool_form is None
