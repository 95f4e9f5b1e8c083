"""A model's own chat template, rendered by jinja2 where it is installed; phones use its compiled form.

Messages never enter the template engine. Marks replace them, and the output between the marks is the
template's own text. So no part of a message can be read as a control token or as code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from omnidraft.errors import PromptError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.session.conversation import Template

_MARK = "\u2063omnidraft{}\u2063"  # replaces a message


@dataclass(frozen=True)
class JinjaTemplate:
    """A Hugging Face chat template.

    Attributes:
        source: the template.
        names: values that it may use, by name, such as bos_token.
    """

    source: str
    names: dict[str, str]

    def parts(self, turns: int) -> list[str]:
        """The strings around the messages of a conversation; see `conversation.Template.parts`.

        Raises:
            PromptError: the template fails, or does not keep every message in one piece.
        """
        marks = [_MARK.format(i) for i in range(2 * turns - 1)]
        roles = ("user", "assistant")
        rest = self._render([{"role": roles[i % 2], "content": mark} for i, mark in enumerate(marks)])
        parts = []
        for mark in marks:
            part, separator, rest = rest.partition(mark)
            if not separator or mark in rest:
                raise PromptError(
                    f"the chat template does not keep the messages of {turns} turns in one piece"
                )
            parts.append(part)
        parts.append(rest)
        # Templates strip answers and write the space before them; our answers keep the space they begin with.
        for i in range(1, len(parts) - 1, 2):
            if parts[i].startswith(rest) and not parts[i][len(rest) :].strip():
                parts[i] = rest
        return parts

    def _render(self, messages: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = _to_json
        try:
            template = environment.from_string(self.source)
            return template.render(messages=messages, add_generation_prompt=True, **self.names)
        except (TemplateError, TypeError, ValueError) as error:
            raise PromptError(f"the chat template fails ({error})") from None


def jinja_is_installed() -> bool:
    """Whether jinja2 is installed, so that templates can be rendered."""
    from importlib.util import find_spec

    return find_spec("jinja2") is not None


def template_of(bundle: Bundle) -> Template:
    """The chat template of a bundle, rendered by jinja2; its compiled form where jinja2 is not installed."""
    prompt = bundle.manifest["prompt"]
    name = prompt["template"]
    if name is None or not jinja_is_installed():
        return bundle.prompt
    return JinjaTemplate(bundle.file(name).read_text(encoding="utf-8"), dict(prompt["names"]))


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)
