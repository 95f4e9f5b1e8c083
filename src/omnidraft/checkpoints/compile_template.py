"""Compile a chat template to strings, so that a phone needs no template engine."""

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from omnidraft.checkpoints.compile_tools import compile_tools
from omnidraft.checkpoints.refusals import optional_json
from omnidraft.errors import CheckpointError, PromptError, reason
from omnidraft.runtime.bundle.jinja_template import MOST_BYTES, JinjaTemplate, probes
from omnidraft.runtime.chat.prompt_template import (
    TRIMMED_ANSWERS,
    Ends,
    PromptTemplate,
    SystemSlot,
    ThinkTags,
    TrimmedEnd,
)
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.vocab.tokenizer import Tokenizer

TAGS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<thinking>", "</thinking>"))
CHECKED_TURNS = (1, 2, 3)  # lengths of the conversations that compiled form and template are compared on
_THOUGHT, _ANSWER = "a thought", "an answer"  # of probes


@dataclass(frozen=True)
class CompiledTemplate:
    """A chat template and its compiled form."""

    prompt: PromptTemplate  # the compiled form
    jinja: JinjaTemplate | None  # the template; None for a model without one
    no_system: str | None  # why there is no place for a system prompt; None where there is one
    no_tools: str | None  # why the compiled form has no text for tools; None where it has


def compile_template(directory: Path, tokenizer: Tokenizer) -> CompiledTemplate:
    """The strings around the messages of a conversation, and the chat template.

    The strings come from renderings of the template with marks in place of the messages, and are compared
    with its renderings of one, two and three turns, with and without a system prompt. Without a chat template
    a conversation begins with the bos token, and later messages are appended. A template whose later turns
    differ from the second, or which cannot render them, is compiled for one turn.
    """
    template = template_in(directory)
    if template is None:
        bare = PromptTemplate(tokenizer.adds_bos or "", "", "", "")
        tags = think_tags(None, tokenizer.controls)
        why = "the model has no chat template"
        return CompiledTemplate(replace(bare, think=tags), None, why, why)
    prompt, no_system = compile_strings(template, directory)
    tags = think_tags(template, tokenizer.controls)
    if tags is not None:
        tags = _earlier_thoughts(template, tags)
    tools, no_tools = compile_tools(template, prompt)
    return CompiledTemplate(replace(prompt, think=tags, tools=tools), template, no_system, no_tools)


def template_in(directory: Path) -> JinjaTemplate | None:
    """The chat template of a checkpoint; None for a model without one."""
    file = directory / "chat_template.jinja"
    config = optional_json(directory / "tokenizer_config.json", str(directory))
    source = config.get("chat_template")
    if file.is_file():
        try:
            source = read_whole(file, MOST_BYTES).decode("utf-8")
        except OSError as error:
            raise CheckpointError(f"{file} cannot be read ({reason(error)})", "download it again") from None
        except ValueError as error:
            raise CheckpointError(f"{file} is not UTF-8 ({reason(error)})", "download it again") from None
    if isinstance(source, list):  # several named templates: use the default one
        named = (each for each in source if isinstance(each, dict) and each.get("name") == "default")
        source = next(named, {}).get("template")
    return JinjaTemplate(source, special_names(config)) if isinstance(source, str) else None


def special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Values of names such as bos_token, which templates may use, of a tokenizer_config.json."""
    names = {}
    for name, value in config.items():
        if name.endswith("_token") and value is not None:
            names[name] = str(value.get("content", "")) if isinstance(value, dict) else str(value)
    return names


def compile_strings(template: JinjaTemplate, directory: Path) -> tuple[PromptTemplate, str | None]:
    """The strings around messages and around a system prompt, and why there is no place for one."""
    with suppress(PromptError):  # one conversation may fail for all: then each is rendered by itself
        template.render_ahead(probes(CHECKED_TURNS))
    try:
        prompt = _compile_turns(template, *template.parts(1))
    except PromptError as error:
        raise CheckpointError(f"{directory}: {error}", "remove chat_template to export without it") from None
    return _with_system(template, prompt)


def think_tags(template: JinjaTemplate | None, added: Container[str]) -> ThinkTags | None:
    """The tags of the model's thoughts, which it keeps; None where neither template nor tokenizer has any.

    Args:
        template: of the model; None without one.
    """
    for opened, closed in TAGS:
        named = template is not None and closed in template.source
        if named or (opened in added and closed in added):
            return ThinkTags(opened, closed, "keep")
    return None


def _compile_turns(template: JinjaTemplate, prefix: str, suffix: str) -> PromptTemplate:
    """The strings if they render two and three turns as the template does, else those of the first turn."""
    first = _names("first", template.trimmed(1)[0])
    single = PromptTemplate(prefix, suffix, trim=(*first, *TRIMMED_ANSWERS))
    try:
        _, earlier, between, after = template.parts(2)
        begin = suffix.removeprefix(earlier)
        if earlier + begin != suffix or not after.endswith(begin):
            return single
        lead = template.pieces(2)[1].removeprefix(earlier)
        lead = lead if not lead.strip() else ""
        after = after[: len(after) - len(begin)]
        _, (start, end), later = template.all_ends(2)
        # Behind a lead, an answer that begins with the same white space would have it twice.
        trim = (*first, *_names("later", later), *_names("answer", (start or lead != "", end)))
        compiled = PromptTemplate(prefix, earlier, between, after, begin, lead, trim=trim)
        same = all(_agrees(compiled, template, turns) for turns in CHECKED_TURNS)
    except PromptError:  # a template for single questions refuses an answer
        return single
    return compiled if same else single


def _with_system(template: JinjaTemplate, prompt: PromptTemplate) -> tuple[PromptTemplate, str | None]:
    """The strings with the place of a system prompt, or without it and why there is none."""
    turns = CHECKED_TURNS if prompt.between is not None else (1,)
    try:
        before, after, _ = template.parts(1, system=True)
        ends, (behind, _) = template.trimmed(1, system=True)
        trim = (*prompt.trim, *_names("system", ends), *_names("behind", (behind, False)))
        compiled = replace(prompt, system=SystemSlot(before, after), trim=trim)
        if all(_agrees(compiled, template, n, system=True) for n in turns):
            return compiled, None
    except PromptError as error:
        return prompt, f"it takes no system prompt in front of the messages ({error.message})"
    return prompt, "a system prompt changes later turns, which strings cannot express"


def _agrees(compiled: PromptTemplate, template: JinjaTemplate, turns: int, *, system: bool = False) -> bool:
    """Whether strings and template give the same text around the same messages."""
    if compiled.parts(turns, system=system) != template.parts(turns, system=system):
        return False
    return compiled.trimmed(turns, system=system) == template.trimmed(turns, system=system)


def _names(message: str, ends: Ends) -> list[TrimmedEnd]:
    """The names of the ends of a message at which white space is left out."""
    named = {f"{message}_start": ends[0], f"{message}_end": ends[1]}
    return [end for end in get_args(TrimmedEnd) if named.get(end)]


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
