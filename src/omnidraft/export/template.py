"""A chat template compiled to two strings, so that a phone needs no template engine."""

import json
from pathlib import Path
from typing import Any

from omnidraft.errors import CheckpointError
from omnidraft.runtime.bundle import PromptTemplate
from omnidraft.runtime.tokenizer import Tokenizer

_MARK = "\u2063omnidraft\u2063"  # stands for the user's prompt while the template is rendered


def compile_template(directory: Path, tokenizer: Tokenizer) -> PromptTemplate:
    """The text before and after a single user message; bos alone where there is no chat template.

    Raises:
        CheckpointError: the template fails, or changes the user's message.
    """
    source = _template_source(directory)
    bos = tokenizer.adds_bos or ""
    if source is None:
        return PromptTemplate(bos, "")
    rendered = _render(source, _special_names(directory), directory)
    prefix, mark, suffix = rendered.partition(_MARK)
    if not mark or _MARK in suffix:
        raise CheckpointError(
            f"the chat template of {directory} does not keep the user's message in one piece; "
            "remove chat_template to export without it"
        )
    return PromptTemplate(prefix, suffix)


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


def _render(source: str, names: dict[str, str], directory: Path) -> str:
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = _refuse
    messages = [{"role": "user", "content": _MARK}]
    try:
        return environment.from_string(source).render(messages=messages, add_generation_prompt=True, **names)
    except (TemplateError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the chat template of {directory} fails ({error}); remove chat_template to export without it"
        ) from None


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
