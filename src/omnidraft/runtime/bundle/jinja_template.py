"""A model's own chat template: its compiled form where strings express it, else rendered by jinja2.

jinja2 runs in a process of its own (`render_template.py`): a template may ask for any time and memory.
Messages never enter the template engine. Marks replace them, and the output between the marks is the
template's own text. So no part of a message can be read as a control token or as code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omnidraft.errors import BundleError, PromptError, reason
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.checked_files import checked_bytes
from omnidraft.runtime.chat import render_template
from omnidraft.runtime.chat.prompt_template import Ends, Template

MOST_BYTES = 1 << 18  # of a chat template; published ones have up to 12 kB
# Of a rendering, which takes some 0.1 s; but for Windows `render_template.py` bounds its processor time.
MOST_SECONDS = 4.5 if sys.platform == "win32" else 60.0
Conversation = list[dict[str, Any]]  # messages, each with role and content
_MARK = "\u2063omnidraft{}\u2063"  # replaces a message
_PAD = "\t \n", "\n \x0b\u3000"  # white space before and after a mark, to see whether the template keeps it


@dataclass(frozen=True)
class JinjaTemplate:
    """A Hugging Face chat template.

    Attributes:
        names: values that it may use, by name, such as bos_token.
    """

    source: str
    names: dict[str, str]
    _known: dict[str, dict[str, str]] = field(default_factory=dict, compare=False, repr=False)

    def parts(self, turns: int, *, system: bool = False) -> list[str]:
        """The strings around the messages of a conversation; see `Template.parts`.

        Raises:
            PromptError: the template fails, or does not keep every message in one piece.
        """
        self._ask_ahead(turns, system=system)
        parts = self.pieces(turns, system=system)
        rest = parts[-1]
        # Templates strip answers and write the space before them; our answers keep the space they begin with.
        for i in range(2 if system else 1, len(parts) - 1, 2):
            if parts[i].startswith(rest) and not parts[i][len(rest) :].strip():
                parts[i] = rest
        return parts

    def trimmed(self, turns: int, *, system: bool = False) -> list[Ends]:
        """At which ends the template leaves out the white space of each message; see `Template.trimmed`."""
        ends = self.all_ends(turns, system=system)
        return [ends[0], *ends[1::2]] if system else ends[::2]

    def all_ends(self, turns: int, *, system: bool = False) -> list[Ends]:
        """As `trimmed`, of the answers, too. White space that the template changes in another way is kept."""
        self._ask_ahead(turns, system=system)
        bare = self.pieces(turns, system=system)
        try:
            padded = self.pieces(turns, system=system, pads=_PAD)
        except PromptError:  # nothing is known about its white space
            padded = [_PAD[1] * (i > 0) + piece + _PAD[0] for i, piece in enumerate(bare)]
        starts, ends = list[bool](), list[bool]()
        for piece, written in zip(bare, padded, strict=True):
            kept = {piece: (0, 0), _PAD[1] + piece: (1, 0), piece + _PAD[0]: (0, 1)}.get(written, (1, 1))
            ends.append(not kept[0])
            starts.append(not kept[1])
        return list(zip(starts[:-1], ends[1:], strict=True))

    def pieces(self, turns: int, *, system: bool = False, pads: tuple[str, str] = ("", "")) -> list[str]:
        """The strings around the messages as the template writes them, with the space before an answer.

        Args:
            pads: white space at the start and at the end of each message.
        """
        messages = probe(turns, system=system, pads=pads)
        marks = [message["content"].strip() for message in messages]
        rest, parts = self.render(messages), list[str]()
        for mark in marks:
            part, separator, rest = rest.partition(mark)
            if not separator or mark in rest:
                raise PromptError(
                    f"the chat template does not keep the messages of {turns} turns in one piece"
                )
            parts.append(part)
        return [*parts, rest]

    def render(self, messages: Conversation, tools: Sequence[dict[str, Any]] = ()) -> str:
        """The text of a conversation, up to the place where an answer begins.

        Args:
            tools: in OpenAI's form.

        Raises:
            PromptError: the template fails, or takes too much time or memory.
        """
        asked = _asked(messages, tools)
        answer = self._known.get(json.dumps(asked)) or self._answers([asked])[0]
        if "error" in answer:
            raise PromptError(f"the chat template fails ({answer['error']})")
        return str(answer["text"])

    def render_ahead(
        self, conversations: Sequence[Conversation], tools: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Render several conversations in one process; `render` and `parts` then have their texts at once.

        Raises:
            PromptError: rendering takes too much time or memory.
        """
        asked = [_asked(messages, tools) for messages in conversations]
        self._known.update(zip(map(json.dumps, asked), self._answers(asked), strict=True))

    def _ask_ahead(self, turns: int, *, system: bool) -> None:
        asked = probes([turns], systems=[system])
        if any(json.dumps(_asked(messages)) not in self._known for messages in asked):
            self._known.clear()
            self.render_ahead(asked)

    def _answers(self, conversations: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
        request = {"path": sys.path, "source": self.source, "names": self.names}
        try:
            done = subprocess.run(
                [sys.executable, "-I", render_template.__file__],
                input=json.dumps({**request, "conversations": conversations}).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=MOST_SECONDS,
                check=True,
            )
            answers: list[dict[str, str]] = json.loads(done.stdout)
        except OSError as error:
            raise PromptError(f"the chat template cannot be rendered ({reason(error)})") from None
        except (subprocess.SubprocessError, ValueError):  # ValueError: it was killed before it answered
            raise PromptError("the chat template fails (it takes too much time or memory)") from None
        return answers


def _asked(messages: Conversation, tools: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """What a rendering is given; templates compare `tools` with none."""
    return {"messages": messages, "tools": list(tools) or None}


def probe(turns: int, *, system: bool = False, pads: tuple[str, str] = ("", "")) -> Conversation:
    """A conversation with marks in place of its messages."""
    roles = [*(["system"] if system else []), *["user", "assistant"] * turns][: 2 * turns - (not system)]
    return [{"role": r, "content": pads[0] + _MARK.format(i) + pads[1]} for i, r in enumerate(roles)]


def probes(turns: Sequence[int], systems: Sequence[bool] = (False, True)) -> list[Conversation]:
    """All that a template is asked about conversations of these lengths."""
    pads = ("", ""), _PAD
    return [probe(n, system=system, pads=each) for n in turns for system in systems for each in pads]


def jinja_is_installed() -> bool:
    """Whether templates can be rendered: jinja2 is installed, and a Python of its own can be started."""
    from importlib.util import find_spec

    return find_spec("jinja2") is not None and bool(sys.executable) and not getattr(sys, "frozen", False)


def template_of(bundle: Bundle) -> Template:
    """The chat template of a bundle: its compiled form, or jinja2 where strings cannot express it.

    Raises:
        BundleError: the template is not UTF-8, has more than 256 KiB, or is not the file that was hashed.
    """
    prompt = bundle.manifest["prompt"]
    name = prompt["template"]
    if name is None or bundle.prompt.between is not None or not jinja_is_installed():
        return bundle.prompt
    try:
        source = checked_bytes(bundle, name, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(
            f"{bundle.file(name)} is not UTF-8 ({error.reason})",
            "run `omnidraft export` again",
            fault="field",
        ) from None
    return JinjaTemplate(source, dict(prompt["names"]))
