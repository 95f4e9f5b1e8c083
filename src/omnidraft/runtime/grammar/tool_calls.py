"""How a model writes calls of tools, and how they are read from its output. spec/17-grammar.md, "Tools"."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from omnidraft.runtime.disk import strict_json
from omnidraft.runtime.grammar.grammar import START, Grammar

Arguments = Literal["arguments", "parameters"]
_TAG = re.compile(r"\s*(<[^>]*>|\[[^\]]*\])")


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        name: of the tool.
        arguments: by name; valid by the tool's schema.
        id: by which its result names it, where the model or the program gives one.
    """

    name: str
    arguments: dict[str, Any]
    id: str = ""


@dataclass(frozen=True)
class CallForm:
    """The text of calls: `open`, objects such as `{"name": "f", "arguments": {}}`, and `close`.

    Attributes:
        open, close: around all calls of an answer.
        between: two of them; None for a model that writes one call in an answer.
        arguments: the name of the property with the arguments.
        id_length: letters and digits of the property `id` behind them; 0 for a model that writes none.
    """

    open: str
    between: str | None
    close: str
    arguments: Arguments
    id_length: int = 0

    @property
    def marker(self) -> str:
        """The text at which calls begin: the first tag of `open`, else all of it, else that of an object."""
        tag = _TAG.match(self.open)
        return tag[0].lstrip() if tag else self.open.lstrip() or '{"name": "'

    @property
    def is_whole_answer(self) -> bool:
        """Whether nothing marks calls, so that they are calls only at the beginning of an answer."""
        return not self.open.strip()

    def fits(self, grammar: Grammar) -> bool:
        """Whether a grammar calls tools in this form: what begins a call is no free text in it."""
        begun = self.open + '{"name": "'
        places = (grammar.read(START, each.encode()) for each in (begun, begun.lstrip()))
        return any(at is not None and not grammar.is_free(at) for at in places)

    def start(self, output: str) -> int:
        """The character of an output at which its calls begin; its length where there are none."""
        if self.is_whole_answer:
            return 0 if output.startswith(self.marker) else len(output)
        at = output.find(self.marker)
        return len(output) if at < 0 else at

    def object(self, call: ToolCall, number: int = 0) -> str:
        """The JSON text of one call.

        Args:
            number: of the call in its answer, from which its id is made where it has none of the form.
        """
        value = {"name": call.name, self.arguments: call.arguments}
        if self.id_length:
            value["id"] = call.id if self._is_id(call.id) else f"{number:0{self.id_length}}"
        return json.dumps(value, ensure_ascii=False)

    def read(self, output: str) -> tuple[ToolCall, ...]:
        """The calls of an output, up to one that is not whole or has a name twice."""
        return tuple(self._calls(output[self.start(output) :].removeprefix(self.open.lstrip())))

    def _calls(self, text: str) -> Iterator[ToolCall]:
        decoder, at = json.JSONDecoder(), 0
        while text.startswith("{", at):
            try:
                start, (_, at) = at, decoder.raw_decode(text, at)
                value = strict_json.parse(text[start:at].encode())
            except (RecursionError, ValueError):  # the output was cut in a call
                return
            name, arguments = value.get("name"), value.get(self.arguments)
            call_id = value.get("id") if self.id_length else ""
            is_call = isinstance(name, str) and isinstance(arguments, dict)
            if not is_call or (self.id_length and not self._is_id(call_id)):
                return
            yield ToolCall(name, arguments, call_id)
            if self.between is None or not text.startswith(self.between, at):
                return
            at += len(self.between)

    def _is_id(self, value: Any) -> bool:
        return isinstance(value, str) and bool(re.fullmatch(f"[A-Za-z0-9]{{{self.id_length}}}", value))


class CallStream:
    """Tells calls from the text before them while an output streams; what may begin a marker is held back."""

    def __init__(self, form: CallForm) -> None:
        self._form, self._held, self._state = form, "", "text"

    def push(self, text: str) -> tuple[str, str]:
        """The text before calls, and the text of calls, that became certain."""
        if self._state == "call":
            return "", text
        if self._state == "answer" and self._form.is_whole_answer:
            return text, ""
        self._held += text
        start, marker = self._form.start(self._held), self._form.marker
        if start < len(self._held):
            self._state = "call"
            return self._take(start), self._take(len(self._held))
        if self._form.is_whole_answer:
            keep = len(self._held) if marker.startswith(self._held) else 0
        else:
            keep = next((n for n in range(len(marker) - 1, 0, -1) if self._held.endswith(marker[:n])), 0)
        if keep < len(self._held):
            self._state = "answer"
        return self._take(len(self._held) - keep), ""

    def end(self) -> str:
        """The text that was held back, at the end of the output."""
        return self._take(len(self._held))

    def _take(self, size: int) -> str:
        text, self._held = self._held[:size], self._held[size:]
        return text
