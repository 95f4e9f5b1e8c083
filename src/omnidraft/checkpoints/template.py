"""Compile a chat template to four strings, so that a phone needs no template engine."""

import json
from pathlib import Path
from typing import Any

from omnidraft.errors import CheckpointError, PromptError
from omnidraft.runtime.bundle.bundle import PromptTemplate
from omnidraft.runtime.session.chat_template import JinjaTemplate
from omnidraft.runtime.vocab.tokenizer import Tokenizer


def compile_template(directory: Path, tokenizer: Tokenizer) -> tuple[PromptTemplate, JinjaTemplate | None]:
    """The strings around the messages of a conversation, and the chat template.

    Without a chat template a conversation begins with the bos token, and later messages are appended. A
    template whose later turns differ from the second, or which cannot render them, is compiled for one turn.

    Args:
        directory: holds the chat template.
        tokenizer: names the bos token.

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
    """The four strings if they render two and three turns as the template does, else the first two."""
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
