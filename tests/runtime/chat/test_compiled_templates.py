"""Compiled templates against jinja2: system prompts, thoughts, and answers that a program gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from omnidraft.checkpoints.compile_template import CompiledTemplate, compile_template
from omnidraft.errors import PromptError
from omnidraft.runtime.chat.prompt_template import SystemSlot, ThinkTags
from omnidraft.runtime.session.conversation import conversation_ids, given_turn
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from support.chat_templates import (
    CHATML,
    DEFAULT_SYSTEM,
    GEMMA,
    GEMMA3,
    LLAMA2,
    LLAMA3,
    LLAMA31,
    MISTRAL3,
    OPENED,
    PHI3,
    QWEN3,
    SYSTEM_LAST,
)
from support.tiny_tokenizers import byte_level

pytest.importorskip("jinja2")

NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
CONTROLS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|User|>", "<|Assistant|>", "<|end|>", "<|eot_id|>"]
MESSAGE, SYSTEM = "Is that <s> all?", "Be brief."


def compiled(place: Path, source: str, tokenizer: LibraryTokenizer) -> CompiledTemplate:
    (place / "tokenizer_config.json").write_text(json.dumps({**NAMES, "chat_template": source}))
    return compile_template(place, tokenizer)


@pytest.fixture(scope="module")
def tokenizer() -> LibraryTokenizer:
    return LibraryTokenizer(byte_level(controls=CONTROLS))


EVERY = {
    "chatml": CHATML, "default_system": DEFAULT_SYSTEM, "gemma": GEMMA, "gemma3": GEMMA3, "llama2": LLAMA2,
    "llama3": LLAMA3, "llama31": LLAMA31, "mistral3": MISTRAL3, "opened": OPENED, "phi3": PHI3,
    "qwen3": QWEN3, "system_last": SYSTEM_LAST,
}  # fmt: skip
WHITE = ("", " ", "\n", "\t \x1c", "\u3000\n ")  # around each message


@pytest.mark.parametrize("name", EVERY)
def test_white_space_and_empty_answers_are_what_jinja_makes_of_them(
    name: str, tokenizer: LibraryTokenizer, tmp_path: Path
) -> None:
    """One to three turns, white space at both ends of each message, answers without a text."""
    result = compiled(tmp_path, EVERY[name], tokenizer)
    assert result.jinja is not None and result.prompt.between is not None
    systems = (None,) if result.prompt.system is None else (None, SYSTEM)
    cases = [
        (turns, system, white, answer)
        for turns in (0, 1, 2) for system in systems for white in WHITE for answer in ("Because.", "")
    ]  # fmt: skip
    conversations = [spoken(*case) for case in cases]
    result.jinja.render_ahead(conversations)
    names = {control.id: name.encode() for name, control in tokenizer.controls.items()}
    for case, messages in zip(cases, conversations, strict=True):
        contents = [message["content"] for message in messages]
        system = contents.pop(0) if case[1] is not None else None
        pairs = zip(contents[:-1:2], contents[1::2], strict=True)
        given = [given_turn(tokenizer, result.prompt, *pair) for pair in pairs]
        for template in (result.prompt, result.jinja):
            ids = conversation_ids(tokenizer, template, given, contents[-1], system)
            written = b"".join(names.get(i) or tokenizer.text_of([i]) for i in ids).decode()
            assert written == result.jinja.render(messages), (case, template)


def spoken(turns: int, system: str | None, white: str, answer: str) -> list[dict[str, str]]:
    """A conversation with white space at both ends of each message."""
    first = [] if system is None else [("system", system)]
    earlier = [("user", "Why?"), ("assistant", answer)] * turns
    return [{"role": r, "content": white + c + white} for r, c in [*first, *earlier, ("user", MESSAGE)]]


def test_the_ends_of_messages_that_a_template_trims(tokenizer: LibraryTokenizer, tmp_path: Path) -> None:
    users, answers = ["first_start", "first_end", "later_start", "later_end"], ["answer_start", "answer_end"]
    systems = ["system_start", "system_end"]
    expected = {
        CHATML: [],
        GEMMA: [*users, *answers],
        GEMMA3: [*users, *answers, "behind_start"],
        LLAMA2: [*users, *answers],  # it strips system prompt and message together, between its own tags
        LLAMA3: [*users, *answers, *systems, "behind_start"],
        MISTRAL3: answers,
    }
    for source, trim in expected.items():
        assert compiled(tmp_path, source, tokenizer).prompt.trim == tuple(trim), source
    # White space that is changed in another way than jinja's `trim` is left as it is.
    odd = CHATML.replace("{{ m.content }}", "{{ m.content.replace('\n', ' ') }}")
    assert compiled(tmp_path, odd, tokenizer).prompt.trim == ()


@pytest.mark.parametrize(
    ("source", "reason"), [(GEMMA, "System role not supported"), (SYSTEM_LAST, "in one piece|later turns")]
)
def test_a_template_without_a_place_for_a_system_prompt_says_why(
    source: str, reason: str, tokenizer: LibraryTokenizer, tmp_path: Path
) -> None:
    result = compiled(tmp_path, source, tokenizer)
    assert result.prompt.between is not None and result.prompt.system is None
    assert result.no_system is not None
    assert re.search(reason, result.no_system), result.no_system
    with pytest.raises(PromptError, match="no place for a system prompt; put the instructions into"):
        result.prompt.parts(1, system=True)


def test_what_a_template_does_with_thoughts_is_found_out(tokenizer: LibraryTokenizer, tmp_path: Path) -> None:
    assert compiled(tmp_path, CHATML, tokenizer).prompt.think is None
    qwen, opened = (compiled(tmp_path, source, tokenizer).prompt for source in (QWEN3, OPENED))
    assert qwen.think == ThinkTags("<think>", "</think>", "trim") and qwen.begin == ""
    assert opened.think == ThinkTags("<think>", "</think>", "cut") and opened.begin == "<think>\n"
    assert opened.system == SystemSlot("<s>", "<|User|>")
    thinking = LibraryTokenizer(byte_level(controls=[*CONTROLS, "<think>", "</think>"]))
    kept = compiled(tmp_path, CHATML, thinking).prompt.think
    assert kept == ThinkTags("<think>", "</think>", "keep"), "the tokenizer has the tags, the template not"


def test_templates_of_real_tokenizers(data: Path) -> None:
    """The template of a published model, with its own tokenizer."""
    place = data / "tokenizers/qwen2"
    tokenizer = LibraryTokenizer.from_file(place)
    result = compile_template(place, tokenizer)
    assert result.no_system is None and result.jinja is not None
    ids = conversation_ids(tokenizer, result.prompt, [], "Hi", "Be brief.")
    assert ids == tokenizer.encode_prompt(
        "<|im_start|>system\n", "Be brief.", "<|im_end|>\n<|im_start|>user\n", "Hi",
        "<|im_end|>\n<|im_start|>assistant\n",
    )  # fmt: skip
