"""How a session's generations begin, on a prompt or after a restart, and go on a round at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnidraft.errors import SessionError
from omnidraft.runtime.decoding.drafter import common_length
from omnidraft.runtime.decoding.rng import SplitMix64, fresh_seed
from omnidraft.runtime.decoding.speculate import Settings, rule_for, speculate
from omnidraft.runtime.decoding.stop import StopReason, StopText, cut_at_stop
from omnidraft.runtime.session.generation import Generation, Limits
from omnidraft.runtime.session.generation_config import GenerationConfig, check_prompt
from omnidraft.runtime.session.loaded_bundle import draft_length_for, verification_for
from omnidraft.runtime.session.session_file import Answer
from omnidraft.runtime.traces.recorder import RecordingSource, recorded

if TYPE_CHECKING:
    from omnidraft.runtime.session.session import Session


def start(session: Session, ids: list[int], request: GenerationConfig, *, goes_on: bool) -> Generation:
    """Begin a generation after a prompt in target ids.

    Args:
        session: what it was saying ends here. ids: the whole prompt. request: the settings.
        goes_on: whether only what is new in it counts as unread to the drafter. Otherwise all of it does,
            whatever came before: a seed repeats a text in any session.

    Raises:
        PromptError: the target cannot read the prompt, or not all of it (ContextError); nothing changes.
    """
    context = _draft_context(session, ids, request)
    check_prompt(ids, session.bundle.target)
    known = common_length(session.pair.context, context) if goes_on else 0
    unread = len(context) - known + min(known, session.draft_length.unread)
    repeatable = request.seed is not None and request.temperature > 0.0
    seed = fresh_seed() if request.seed is None else request.seed
    request = replace(request, seed=seed)
    session.random = SplitMix64(seed)
    length = draft_length_for(request, session.weights, session.costs, unread)
    # How much is drafted moves what a seed draws, so a text that a seed has to repeat goes by the bundle's
    # figures alone. Greedy text does not depend on it, and nobody can repeat a text whose seed was drawn.
    if not repeatable and request.mode in session.draft_lengths:
        length.follow(session.draft_lengths[request.mode])
    session.draft_length = session.draft_lengths[request.mode] = length
    session.pair.tokens, session.pair.context = list(ids), context
    session.answer = begin(session, request, ids)
    return session.answer


def replayed(session: Session, saved: Answer) -> Generation:
    """A generation that an earlier process had begun; `Session.resume` goes on with it.

    Raises:
        ValueError: its output goes on after its end, or ended in another way than it says.
    """
    found = begin(session, saved.request, saved.prompt, saved.output, saved.logprobs, saved.stop_reason)
    if found.end() != (None if saved.stop_reason == "cancelled" else saved.stop_reason):
        raise ValueError("its output ended in another way than it says")
    return found


def begin(
    session: Session,
    request: GenerationConfig,
    prompt: Sequence[int],
    output: Sequence[int] = (),
    logprobs: Sequence[float] = (),
    stop_reason: StopReason | None = None,
) -> Generation:
    """A generation that goes on from `session.pair.tokens`, of which `output` was said already.

    Raises:
        ValueError: `output` goes on after its end.
    """
    eos_ids = () if request.ignore_eos else session.bundle.target.eos_ids
    stop_text = StopText(request.stop)
    cut = partial(cut_at_stop, eos_ids=eos_ids, text=stop_text, bytes_of=session.vocab_map.bytes_of)
    if len(cut(list(output))[0]) < len(output):
        raise ValueError("its output goes on after its end")
    rule = rule_for(request.mode, request.temperature, verification_for(request, session.weights))
    left = request.max_new_tokens - len(output)
    settings = Settings(rule, request.sampling, left, eos_ids, request.logprobs, session.tracer)
    pair, length, random = session.pair, session.draft_length, session.random
    rounds = speculate(pair, pair.tokens, pair.context, settings, length, random, cut)
    if session.trace is not None:
        rounds = recorded(rounds, session.trace, _source(session, request, bool(output)))
    limits = Limits(eos_ids, session.models.target.max_length)
    found = Generation(rounds, request, prompt, stop_text, limits, partial(_step, session))
    found.replay(output, logprobs, stop_reason)
    return found


def _draft_context(session: Session, ids: list[int], request: GenerationConfig) -> list[int]:
    """A prompt in draft ids; where it goes on from the text before, so do the draft ids."""
    if not request.asks_drafter:
        return []
    pair, tokenizer = session.pair, session.weights.drafter_tokenizer
    # An answer that asked no drafter left no context, or one without its prompt.
    whole = session.answer is not None and session.answer.request.asks_drafter and pair.context
    known = len(pair.tokens)
    if tokenizer is None or not whole or ids[:known] != pair.tokens:
        return session.draft_prompt(ids)
    new = session.target_tokenizer.text_of(ids[known:])
    return pair.context + (tokenizer.spell(new) or session.draft_prompt(ids[known:]))


def _source(session: Session, request: GenerationConfig, continues: bool) -> RecordingSource:
    """What a trace says of a generation that is about to begin."""
    tokens, context = session.pair.tokens, session.pair.context

    def text() -> Sequence[int]:
        if request.asks_drafter and session.weights.drafter_tokenizer is not None:
            return context
        # Nothing drafts, so there are no draft ids yet.
        spelled = [d for token in tokens for d in session.vocab_map.spell(token)]
        return session.draft_prompt(tokens) or spelled

    def adapters() -> tuple[str | None, str | None]:
        return session.models.digests

    return RecordingSource(session.vocab_map, text, adapters, request.temperature, request.mode, continues)


@contextmanager
def _step(session: Session, generation: Generation) -> Iterator[None]:
    """Surrounds a round: only the newest generation may run, and it can be cancelled before each pass."""
    with session.turn():
        if generation is not session.answer:
            raise SessionError("a newer generation of this session took over", "start another one to go on")
        with session.models.cancelled_by(lambda: generation.is_cancelled):
            yield
