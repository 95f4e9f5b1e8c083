"""Refuses a prompt that is too long by its bytes: to encode a megabyte takes seconds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from omnidraft.errors import ContextError
from omnidraft.runtime.chat.messages import read_messages
from omnidraft.runtime.chat.thinking import given_answer
from omnidraft.runtime.chat.tools import read_tools
from omnidraft.runtime.session.api import TextSession
from omnidraft.runtime.session.generation_config import TOO_LONG
from omnidraft.serve.requests import ModelRequest


def check_size(session: TextSession, asked: ModelRequest) -> None:
    """Refuse a prompt whose texts have more bytes than the longest tokens of a whole context.

    Raises:
        ContextError: it is too long.
        PromptError: the messages or tools are refused.
    """
    limit, most = session.context_size, session.target_tokenizer.most_bytes
    silent = session.target_tokenizer.unwritten
    texts = _texts(session, asked) if most else ()
    size = sum(len(text.strip().encode().translate(None, silent)) for text in texts)
    if size > limit * most:
        raise ContextError(
            f"the prompt has {size} bytes and the context holds {limit} tokens of at most {most} bytes",
            TOO_LONG,
        )


def _texts(session: TextSession, asked: ModelRequest) -> Iterator[str]:
    """Texts that the prompt has as they are."""
    if not asked.is_chat:
        if isinstance(asked.prompt, str):
            yield asked.prompt
        return
    messages = read_messages(cast(Sequence[Mapping[str, Any]], asked.prompt))
    prompt = session.bundle.prompt
    form = prompt.tool_form
    yield messages.system or ""
    for turn in (*messages.turns, messages.asked):
        yield from (turn.message, given_answer(turn.answer, prompt.think), *turn.results)
        if form is not None:
            yield from (form.calls.object(call, number) for number, call in enumerate(turn.calls))
    if form is not None and asked.tools:
        yield form.listing([tool.value for tool in read_tools(asked.tools)])
