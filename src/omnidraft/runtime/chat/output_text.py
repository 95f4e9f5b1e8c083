"""The bytes of an output's text, with think tags; the ids that a conversation keeps. spec/01-tokens.md."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from omnidraft.runtime.chat.prompt_template import ThinkTags
from omnidraft.runtime.chat.thinking import kept_start
from omnidraft.runtime.decoding.stop import whole_tokens
from omnidraft.runtime.grammar.tool_calls import CallForm
from omnidraft.runtime.vocab.tokenizer import Tokenizer

MOST_TAIL = 128  # ids at the end of a prompt in which an open tag is looked for
_WHITE = b" \t\n\r"  # behind the open tag


class OutputText:
    """Reads the ids of outputs as text in which think tags are written.

    Args:
        tags: of the model; None for a model that writes no thoughts.
        bytes_of: the bytes of a target id; none for a control token.
        calls: how calls of tools are written; None for a model that cannot call any.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        tags: ThinkTags | None,
        bytes_of: Callable[[int], bytes],
        calls: CallForm | None = None,
    ) -> None:
        self._tokenizer, self._think, self._bytes_of = tokenizer, tags, bytes_of
        names = () if tags is None else (tags.open, tags.close)
        controls = tokenizer.controls
        self._tags = {controls[name].id: name.encode() for name in names if name in controls}
        self._silent = {control.id for control in controls.values()} - self._tags.keys()
        called = "" if calls is None else calls.open + calls.close
        marks = {each.id: name.encode() for name, each in controls.items() if name in called}
        self.shown = {**self._tags, **marks}  # what the text has of a control token

    def bytes_of(self, token: int) -> bytes:
        """Bytes of an id: tags of thoughts and calls are written, every other control token is silent."""
        return self.shown.get(token) or self._bytes_of(token)

    def text(self, ids: Sequence[int]) -> bytes:
        """Bytes of ids in order."""
        return b"".join(map(self.bytes_of, ids))

    def ends_in_thought(self, prompt: Sequence[int]) -> bool:
        """Whether an output after a prompt begins inside a thought: the prompt ends with the open tag.

        White space may stand behind the tag, but no other control token.
        """
        if self._think is None:
            return False
        tail = [*takewhile(lambda i: i not in self._silent, reversed(prompt[-MOST_TAIL:]))]
        return self.text(tail[::-1]).rstrip(_WHITE).endswith(self._think.open.encode())

    def kept(self, ids: Sequence[int], *, inside: bool) -> tuple[int, ...]:
        """The ids of an answer that a conversation keeps: without its thought, if the template leaves it out.

        Args:
            ids: of the answer, without the token or string that ended it.
            inside: the answer begins inside a thought.
        """
        start = 0 if self._think is None else kept_start(self.text(ids), self._think, inside=inside)
        if start == 0:
            return tuple(ids)
        data = [self.bytes_of(i) for i in ids]
        whole, head = whole_tokens([len(d) for d in data], start)
        if head == 0:
            return tuple(ids[whole:])
        # The thought ends inside a token: the bytes behind it are spelled again.
        return (*(self._tokenizer.spell(data[whole][head:]) or []), *ids[whole + 1 :])
