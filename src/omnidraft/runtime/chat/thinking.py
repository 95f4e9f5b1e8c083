"""The thought of an answer: where it ends, and how a stream tells it apart. Rules: spec/01-tokens.md.

An output has at most one thought, at its beginning. It begins inside the thought where the prompt ends with
the open tag. A thought that was never closed has no answer behind it.
"""

from omnidraft.runtime.chat.prompt_template import Ends, ThinkTags, trimmed

_WHITE = " \t\n\r"  # before the open tag


def answer_start(output: bytes, tags: ThinkTags, *, inside: bool) -> int:
    """The byte of an output at which its answer begins: 0 without a thought, its length if one is not closed.

    Args:
        output: the bytes of an output, with the tags in it.
        inside: the output begins inside a thought.
    """
    opened = output.lstrip(_WHITE.encode()).startswith(tags.open.encode())
    if not inside and not opened:
        return 0
    close = tags.close.encode()
    at = output.find(close)
    return len(output) if at < 0 else at + len(close)


def kept_start(output: bytes, tags: ThinkTags, *, inside: bool) -> int:
    """The byte of an output from which on a conversation keeps it (`ThinkTags.earlier`)."""
    if tags.earlier == "keep":
        return 0
    start = answer_start(output, tags, inside=inside)
    if start > 0 and tags.earlier == "trim":
        while output[start : start + 1] == b"\n":
            start += 1
    return start


def split_thought(output: str, tags: ThinkTags | None, *, inside: bool = False) -> tuple[str, str]:
    """The thought and the answer of an output, without tags and without the white space around the tags."""
    if tags is None:
        return "", output
    data = output.encode()
    start = answer_start(data, tags, inside=inside)
    thought, answer = data[:start].decode(), data[start:].decode()
    if not start:
        return "", answer
    thought = thought.strip().removeprefix(tags.open).removesuffix(tags.close)
    return thought.strip(), answer.lstrip()


def given_answer(text: str, tags: ThinkTags | None, ends: Ends = (True, True)) -> str:
    """The answer in a text that a program gives as an earlier answer: no thought, no white space behind it.

    Args:
        text: of the program; the open tag may be missing, where the template writes it.
        ends: of the answer, at which white space is left out, too.
    """
    inside = tags is not None and tags.close in text
    return trimmed(split_thought(text, tags, inside=inside)[1], ends)


class ThoughtStream:
    """Tells thought from answer while an output streams. The tags belong to the thought.

    Text that may be the beginning of a tag is held back.

    Args:
        inside: the output begins inside a thought.
    """

    def __init__(self, tags: ThinkTags, *, inside: bool) -> None:
        self._tags, self._held = tags, ""
        self._state = "thought" if inside else "start"

    @property
    def is_thinking(self) -> bool:
        """Whether the text so far ends inside a thought."""
        return self._state == "thought"

    def push(self, text: str) -> list[tuple[str, bool]]:
        """The text that became certain, in order, each part with whether it is thought."""
        if self._state == "answer":
            return [(text, False)] if text else []
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip(_WHITE)
            if begun.startswith(self._tags.open):
                self._state = "thought"
            elif self._tags.open.startswith(begun):
                return []
            else:
                self._state = "answer"
                return self.end()
        return self._thought()

    def end(self) -> list[tuple[str, bool]]:
        """The text that was held back, at the end of the output."""
        text, self._held = self._held, ""
        return [(text, self._state == "thought")] if text else []

    def _thought(self) -> list[tuple[str, bool]]:
        close, held = self._tags.close, self._held
        at = held.find(close)
        if at >= 0:
            self._state, self._held = "answer", ""
            parts = [(held[: at + len(close)], True), (held[at + len(close) :], False)]
            return [part for part in parts if part[0]]
        keep = next((n for n in range(len(close) - 1, 0, -1) if held.endswith(close[:n])), 0)
        self._held = held[len(held) - keep :]
        return [(held[: len(held) - keep], True)] if len(held) > keep else []
