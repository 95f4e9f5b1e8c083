"""Answers requests with one session; an answer depends on its own request alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from omnidraft.errors import ContextError
from omnidraft.runtime.chat.messages import read_messages
from omnidraft.runtime.chat.thinking import given_answer
from omnidraft.runtime.chat.tools import read_tools
from omnidraft.runtime.decoding.length_state import LengthState
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK
from omnidraft.runtime.session.api import Generation, Piece, TextSession
from omnidraft.runtime.session.generation_config import TOO_LONG
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.serve.requests import ModelRequest
from omnidraft.serve.worker import AnswerJob


class Answerer:
    """Answers one request at a time.

    Nothing of a request reaches the next one: no conversation, no learned n-grams, no counts of the draft
    length. Only the target's KV cache stays, as far as both prompts begin alike, and only in whole chunks of
    a prompt: what such a chunk holds depends on the tokens up to its end alone, in int8 and int4 kernels too.
    So a request with the same messages, settings and seed gets the same text.
    """

    def __init__(self, session: TextSession) -> None:
        self.session = session
        self._ngrams = session.cache.table()  # those that every request begins with
        self._read = 0  # tokens in the target's KV cache that were read in chunks of a prompt

    def answer(self, asked: ModelRequest, job: AnswerJob) -> Iterator[Generation | Piece]:
        """The generation, when it is known that it can begin, and then its pieces.

        Raises:
            OmnidraftError: the prompt or a setting is refused, or the bundle fails.
        """
        generation = self._begin(asked)
        job.interrupt = generation.cancel
        if job.is_cancelled:
            return
        yield generation
        try:
            yield from generation
        finally:
            self._read = min(self._read_by(generation), len(self.session.text.decoder.cached))

    def _begin(self, asked: ModelRequest) -> Generation:
        session = self.session
        check_size(session, asked)
        session.reset()
        session.system = None
        session.cache = NgramCache.of_table(self._ngrams, session.vocab_map)
        session.text.lengths = LengthState()
        session.forget_context(of_target=False)
        if asked.is_chat:
            messages = cast(Sequence[Mapping[str, Any]], asked.prompt)
            generation = session.chat(
                messages,
                asked.config,
                grammar=asked.schema,
                tools=asked.tools or None,
                tool_choice=asked.tool_choice,
                most_calls=asked.most_calls,
            )
        else:
            prompt = cast(str | Sequence[int], asked.prompt)
            generation = session.generate(prompt, asked.config, raw=True, grammar=asked.schema)
        cached = session.text.decoder.cached  # what both prompts share
        del cached[min(len(cached), self._read) // PREFILL_CHUNK * PREFILL_CHUNK :]
        self._read = len(cached)
        return generation

    def _read_by(self, generation: Generation) -> int:
        """Tokens of the prompt that were read in whole chunks, if reading has ended."""
        return (len(generation.prompt_ids) - 1) // PREFILL_CHUNK * PREFILL_CHUNK


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
