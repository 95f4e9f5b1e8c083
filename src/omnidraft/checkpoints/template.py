"""Compile a chat template to strings, so that a phone needs no template engine."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omnidraft.errors import CheckpointError, PromptError
from omnidraft.runtime.bundle.chat_template import JinjaTemplate, probe
from omnidraft.runtime.chat.prompt_template import PromptTemplate, SystemSlot, ThinkTags
from omnidraft.runtime.vocab.tokenizer import Tokenizer

TAGS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<thinking>", "</thinking>"))
CHECKED_TURNS = (1, 2, 3)  # lengths of the conversations that compiled form and template are compared on
_THOUGHT, _ANSWER = "a thought", "an answer"  # of probes


@dataclass(frozen=True)
class CompiledTemplate:
    """A chat template and its compiled form.

    Attributes:
        prompt: the compiled form.
        jinja: the template; None for a model without one.
        no_system: why there is no place for a system prompt; None where there is one.
    """

    prompt: PromptTemplate
    jinja: JinjaTemplate | None
    no_system: str | None


def compile_template(directory: Path, tokenizer: Tokenizer) -> CompiledTemplate:
    """The strings around the messages of a conversation, and the chat template.

    The strings come from renderings of the template with marks in place of the messages, and are compared
    with its renderings of one, two and three turns, with and without a system prompt. Without a chat template
    a conversation begins with the bos token, and later messages are appended. A template whose later turns
    differ from the second, or which cannot render them, is compiled for one turn.

    Args:
        directory: holds the chat template.
        tokenizer: names the bos token and the control tokens.

    Raises:
        CheckpointError: the template fails, or changes the user's message.
    """
    source = _template_source(directory)
    if source is None:
        bare = PromptTemplate(tokenizer.adds_bos or "", "", "", "")
        return CompiledTemplate(
            replace(bare, think=_think_tags(None, tokenizer)), None, "the model has no chat template"
        )
    template = JinjaTemplate(source, _special_names(directory))
    with suppress(PromptError):  # one conversation may fail for all: then each is rendered by itself
        template.render_ahead([probe(n, system=system) for n in CHECKED_TURNS for system in (False, True)])
    try:
        prompt = _compile_turns(template, *template.parts(1))
    except PromptError as error:
        raise CheckpointError(f"{directory}: {error}", "remove chat_template to export without it") from None
    system, no_system = _system_slot(template, prompt)
    prompt = replace(prompt, system=system, think=_think_tags(template, tokenizer))
    return CompiledTemplate(prompt, template, no_system)


def _compile_turns(template: JinjaTemplate, prefix: str, suffix: str) -> PromptTemplate:
    """The strings if they render two and three turns as the template does, else those of the first turn."""
    single = PromptTemplate(prefix, suffix)
    try:
        _, earlier, between, after = template.parts(2)
        begin = suffix.removeprefix(earlier)
        if earlier + begin != suffix or not after.endswith(begin):
            return single
        lead = template.pieces(2)[1].removeprefix(earlier)
        after = after[: len(after) - len(begin)]
        compiled = PromptTemplate(prefix, earlier, between, after, begin, lead if not lead.strip() else "")
        same = all(compiled.parts(turns) == template.parts(turns) for turns in CHECKED_TURNS)
    except PromptError:  # a template for single questions refuses an answer
        return single
    return compiled if same else single


def _system_slot(template: JinjaTemplate, prompt: PromptTemplate) -> tuple[SystemSlot | None, str | None]:
    """The place of a system prompt, or why there is none."""
    turns = CHECKED_TURNS if prompt.between is not None else (1,)
    try:
        before, after, _ = template.parts(1, system=True)
        slot = SystemSlot(before, after)
        compiled = replace(prompt, system=slot)
        if all(compiled.parts(n, system=True) == template.parts(n, system=True) for n in turns):
            return slot, None
    except PromptError as error:
        return None, f"it takes no system prompt in front of the messages ({error.message})"
    return None, "a system prompt changes later turns, which strings cannot express"


def _think_tags(template: JinjaTemplate | None, tokenizer: Tokenizer) -> ThinkTags | None:
    """The tags of the model's thoughts; None where neither template nor tokenizer has any."""
    for opened, closed in TAGS:
        named = template is not None and closed in template.source
        if named or (opened in tokenizer.controls and closed in tokenizer.controls):
            keep = ThinkTags(opened, closed, "keep")
            return keep if template is None else _earlier_thoughts(template, keep)
    return None


def _earlier_thoughts(template: JinjaTemplate, tags: ThinkTags) -> ThinkTags:
    """The tags, with what the template keeps of an earlier thought."""
    written = f"{tags.open}\n{_THOUGHT}\n{tags.close}\n\n{_ANSWER}"

    probes = [
        [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": each},
            {"role": "user", "content": "b"},
        ]
        for each in (written, _ANSWER)
    ]
    try:
        template.render_ahead(probes)
        whole, without = map(template.render, probes)
    except PromptError:  # a template for single questions refuses an answer
        return tags
    if _THOUGHT in whole:
        return tags
    return replace(tags, earlier="trim" if whole == without else "cut")


def _template_source(directory: Path) -> str | None:
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    source = _config(directory).get("chat_template")
    if isinstance(source, list):  # several named templates: use the default one
        source = next((t["template"] for t in source if t.get("name") == "default"), None)
    return source if isinstance(source, str) else None


def _config(directory: Path) -> dict[str, Any]:
    file = directory / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return config if isinstance(config, dict) else {}


def _special_names(directory: Path) -> dict[str, str]:
    """Values of names such as bos_token, which templates may use."""
    names = {}
    for name, value in _config(directory).items():
        if name.endswith("_token") and value is not None:
            names[name] = value["content"] if isinstance(value, dict) else str(value)
    return names
