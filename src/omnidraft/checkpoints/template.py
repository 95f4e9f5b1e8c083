"""A chat template compiled to four strings, so that a phone needs no template engine."""

import json
from pathlib import Path
from typing import Any

from omnidraft.errors import CheckpointError, PromptError
from omnidraft.runtime.bundle.bundle import PromptTemplate
from omnidraft.runtime.session.chat_template import JinjaTemplate
from omnidraft.runtime.vocab.tokenizer import Tokenizer


def compile_template(directory: Path, tokenizer: Tokenizer) -> tuple[PromptTemplate, JinjaTemplate | None]:
    """What stands around the messages of a conversation, and the template that says so.

    Without a chat template: the beginning token alone, and later messages simply go on. A template whose
    later turns differ from its second, or which cannot render them, is compiled for one turn.

    Raises:
        CheckpointError: the template fails, or changes the user's message.
    """
    source = _template_source(directory)
    if source is None:
        return PromptTemplate(tokenizer.adds_bos or "", "", "", ""), None
    template = JinjaTemplate(source, _special_names(directory))
    try:
        prefix, suffix = template.parts(1)
    except PromptError as error:
        raise CheckpointError(f"{directory}: {error}", "remove chat_template to export without it") from None
    return _compile_turns(template, prefix, suffix), template


def _compile_turns(template: JinjaTemplate, prefix: str, suffix: str) -> PromptTemplate:
    """The four strings if they say what the template says of two and of three turns, else the first two."""
    try:
        compiled = PromptTemplate(prefix, suffix, *template.parts(2)[2:])
        same = all(compiled.parts(turns) == template.parts(turns) for turns in (2, 3))
    except PromptError:  # a template for single questions refuses an answer
        same = False
    return compiled if same else PromptTemplate(prefix, suffix)


def _template_source(directory: Path) -> str | None:
    file = directory / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = _config(directory).get("chat_template")
    if isinstance(found, list):  # several named templates: take the default one
        found = next((t["template"] for t in found if t.get("name") == "default"), None)
    return found if isinstance(found, str) else None


def _config(directory: Path) -> dict[str, Any]:
    file = directory / "tokenizer_config.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _special_names(directory: Path) -> dict[str, str]:
    """Names such as bos_token that templates may use."""
    found = {}
    for name, value in _config(directory).items():
        if name.endswith("_token") and value is not None:
            found[name] = value["content"] if isinstance(value, dict) else str(value)
    return found
