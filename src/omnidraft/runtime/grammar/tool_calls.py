"""How a model writes calls of tools, and how they are read from its output. spec/17-grammar.md, "Tools"."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Arguments = Literal["arguments", "parameters"]
_TAG = re.compile(r"\s*(<[^>]*>|\[[^\]]*\])")


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        name: of the tool.
        arguments: by name; valid by the tool's schema.
    """

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class CallForm:
    """The text of calls: `open`, objects such as `{"name": "f", "arguments": {}}`, and `close`.

    Attributes:
        open, close: around all calls of an answer.
        between: two of them; None for a model that writes one call in an answer.
        arguments: the name of the property with the arguments.
    """

    open: str
    between: str | None
    close: str
    arguments: Arguments

    @property
    def marker(self) -> str:
        """The text at which calls begin: the first tag of `open`, else all of it, else that of an object."""
        tag = _TAG.match(self.open)
        return tag[0].lstrip() if tag else self.open.lstrip() or '{"name": "'

    @property
    def is_whole_answer(self) -> bool:
        """Whether nothing marks calls, so that they are calls only at the beginning of an answer."""
        return not self.open.strip()

    def start(self, output: str) -> int:
        """The character of an output at which its calls begin; its length where there are none."""
        if self.is_whole_answer:
            return 0 if output.startswith(self.marker) else len(output)
        at = output.find(self.marker)
        return len(output) if at < 0 else at

    def object(self, call: ToolCall) -> str:
        """The JSON text of one call."""
        return json.dumps({"name": call.name, self.arguments: call.arguments}, ensure_ascii=False)

    def read(self, output: str) -> tuple[ToolCall, ...]:
        """The whole calls of an output that belongs to a grammar of calls."""
        return tuple(self._calls(output[self.start(output) :].removeprefix(self.open.lstrip())))

    def _calls(self, text: str) -> Iterator[ToolCall]:
        decoder, at = json.JSONDecoder(), 0
        while text.startswith("{", at):
            try:
                value, at = decoder.raw_decode(text, at)
            except ValueError:  # the output was cut in a call
                return
            yield ToolCall(value["name"], value[self.arguments])
            if self.between is None or not text.startswith(self.between, at):
                return
            at += len(self.between)


class CallStream:
    """Tells calls from the text before them while an output streams; what may begin a marker is held back."""

    def __init__(self, form: CallForm) -> None:
        self._form, self._held, self._state = form, "", "text"

    def push(self, text: str) -> tuple[str, str]:
        """The text before calls, and the text of calls, that became certain."""
        if self._state == "call":
            return "", text
        self._held += text
        start, marker = self._form.start(self._held), self._form.marker
        if start < len(self._held):
            self._state = "call"
            return self._take(start), self._take(len(self._held))
        if self._form.is_whole_answer:
            keep = len(self._held) if marker.startswith(self._held) and self._state == "text" else 0
            self._state = "text" if keep else "answer"
        else:
            keep = next((n for n in range(len(marker) - 1, 0, -1) if self._held.endswith(marker[:n])), 0)
        return self._take(len(self._held) - keep), ""

    def end(self) -> str:
        """The text that was held back, at the end of the output."""
        return self._take(len(self._held))

    def _take(self, size: int) -> str:
        text, self._held = self._held[:size], self._held[size:]
        return text
