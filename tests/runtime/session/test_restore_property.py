"""A session that is saved at any moment and loaded again continues as it would have.

Over random vocabularies, caches and models: graphs in onnxruntime whose logits depend on what their KV
buffers hold, so a context that was not read again, or was read in another way, changes the text.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from omnidraft import Generation, GenerationConfig, LanguageModel, TextSession
from omnidraft.errors import ContextError
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from support.tiny_worlds import random_text, random_weights, without_drafter


def configs(most_new: int) -> st.SearchStrategy[GenerationConfig]:
    """Any settings, with stop strings of the letters that the models write."""
    return st.builds(
        GenerationConfig,
        max_new_tokens=st.integers(4, most_new),
        temperature=st.sampled_from([0.0, 0.7, 1.0, 1.6]),
        seed=st.integers(0, 2**64 - 1),
        mode=st.sampled_from(["trie", "trie", "trie", "match", "direct", "lookup", "plain"]),
        num_draft_tokens=st.sampled_from(["auto", 1, 3, 7]),
        stop=st.sampled_from([(), (), ("dd",), ("abc", "c a")]),
        ignore_eos=st.booleans(),
        top_k=st.sampled_from([0, 0, 3, 20]),
        top_p=st.sampled_from([1.0, 1.0, 0.8]),
        min_p=st.sampled_from([0.0, 0.0, 0.1]),
        repetition_penalty=st.sampled_from([1.0, 1.0, 1.3]),
        verification=st.sampled_from(["auto", "token", "block"]),
        logprobs=st.booleans(),
    )


@dataclass(frozen=True)
class Plan:
    """A conversation in a random world, the answer in which it is saved, and the round of that answer."""

    world: int
    capacity: int
    asked: list[GenerationConfig]
    answer: int
    rounds: int
    measured: bool


PLANS = st.builds(
    Plan,
    world=st.integers(0, 2**32),
    capacity=st.sampled_from([2, 1 << 15]),
    asked=st.lists(configs(24), min_size=2, max_size=3),
    answer=st.integers(0, 1),
    rounds=st.integers(0, 9),
    measured=st.booleans(),
)
Record = list[Any]


def begin(plan: Plan, loaded: LanguageModel) -> TextSession:
    """A session whose cache knows some n-grams of the map."""
    session, rng = TextSession(loaded), np.random.default_rng(plan.world)
    if plan.measured:  # as `TextSession.measure` does
        session.costs = Costs((1.0, 1.0, 1.0), 0.01, 0.0)
    grams = [int(t) for t in loaded.vocab_map.leaves if rng.random() < 0.5]
    session.cache = NgramCache(loaded.vocab_map, capacity=plan.capacity)
    for target_id in grams:
        session.cache.insert(target_id)
    return session


def ask(session: TextSession, message: str, config: GenerationConfig) -> Generation | str:
    """The next answer, or the refusal of a conversation that the context cannot hold."""
    try:
        return session.chat(message, config)
    except ContextError as error:
        return str(error)


def play(answer: Generation | str, most: int | None = None) -> Record:
    """Run an answer, for `most` rounds at most, and record everything about it but the seconds."""
    if isinstance(answer, str):
        return [answer]
    record: Record = []
    while answer.stop_reason is None and (most is None or len(record) < most):
        piece = next(iter(answer))
        assert piece.round is not None
        record.append({**asdict(piece.round), "text": piece.text, "seconds": None, "read": None})
    return record


def end_of(session: TextSession) -> Record:
    """The state of a session after its last answer."""
    answer, entries = session.answer, session.cache.entries()
    assert answer is not None
    return [
        answer.token_ids, answer.text, answer.logprobs, answer.stop_reason, answer.stop_string, entries,
        session.text.random.state, session.text.lengths.copy(), session.turns, session.message,
    ]  # fmt: skip


def emitted_of(record: Record) -> list[int]:
    """All tokens of some answers, without their division into rounds."""
    return [token for each in record if isinstance(each, dict) for token in each["emitted"]]


def go_on(session: TextSession, messages: list[str], plan: Plan) -> Record:
    """The rest of the conversation after the answer in which it may be saved."""
    record: Record = []
    for number in range(plan.answer + 1, len(plan.asked)):
        record += [*play(ask(session, messages[number], plan.asked[number])), end_of(session)]
    return record


@settings(max_examples=80, deadline=None, derandomize=True)
@given(PLANS)
def test_after_a_restart_all_is_as_without(plan: Plan) -> None:
    rng = np.random.default_rng(plan.world)
    messages = [random_text(rng, 9) for _ in plan.asked]
    with tempfile.TemporaryDirectory() as name:
        loaded, file = random_weights(Path(name), rng), Path(name) / "a.session"
        never_saved, saved = begin(plan, loaded), begin(plan, loaded)
        for session in (never_saved, saved):
            for number in range(plan.answer):
                play(ask(session, messages[number], plan.asked[number]))
        moment = messages[plan.answer], plan.asked[plan.answer]
        whole = [*play(ask(never_saved, *moment)), end_of(never_saved), *go_on(never_saved, messages, plan)]

        answer = ask(saved, *moment)
        before = play(answer, plan.rounds)
        saved.save(file)
        reloaded = TextSession(loaded)
        reloaded.cache = NgramCache(loaded.vocab_map, capacity=plan.capacity)
        reloaded.load(file)
        assert reloaded.answer is not None
        unfinished = reloaded.answer.stop_reason is None
        rest = play(reloaded.resume()) if unfinished else []
        restored = [*before, *rest, end_of(reloaded), *go_on(reloaded, messages, plan)]
        if all(config.num_draft_tokens != "auto" for config in plan.asked):
            assert restored == whole
        elif all(config.temperature == 0.0 for config in plan.asked):
            # The models read the text again, in other passes: the last bits can change a draft, not the text.
            assert emitted_of(restored) == emitted_of(whole)
        else:  # the drafts change which text a seed gives, but not its distribution
            assert len(emitted_of(restored)) > 0
        event(f"saved inside an answer: {unfinished}, {len(rest)} rounds left")
        # Saving changed nothing for the session that was saved.
        rest = play(answer) if unfinished else []
        assert [*before, *rest, end_of(saved), *go_on(saved, messages, plan)] == whole


@settings(max_examples=40, deadline=None, derandomize=True)
@given(PLANS, st.lists(st.booleans(), min_size=2, max_size=4))
def test_the_drafter_may_come_and_go(plan: Plan, has_drafter: list[bool]) -> None:
    """Saved and loaded repeatedly, with and without it: never refused, and greedy text is the same."""
    rng = np.random.default_rng(plan.world)
    messages = [random_text(rng, 9) for _ in plan.asked]
    greedy = [replace(r, temperature=0.0, logprobs=False) for r in plan.asked]
    plan = replace(plan, asked=greedy, answer=0)
    with tempfile.TemporaryDirectory() as name:
        whole = random_weights(Path(name), rng)
        loaded, file = {True: whole, False: without_drafter(whole)}, Path(name) / "a.session"
        expected = begin(plan, whole)
        play(ask(expected, messages[0], greedy[0]))
        texts = [expected.answer.text if expected.answer else ""]
        go_on(expected, messages, plan)

        session = begin(plan, loaded[has_drafter[0]])
        play(ask(session, messages[0], greedy[0]), plan.rounds)
        for has in has_drafter[1:]:
            session.save(file)
            session = TextSession(loaded[has])
            session.load(file)
            assert session.answer is not None
            if session.answer.stop_reason is None:
                play(session.resume(), 1)
        if session.answer is not None and session.answer.stop_reason is None:
            play(session.resume())
        assert session.answer is not None and session.answer.text == texts[0]
        drafts = has_drafter[-1] and session.answer.config.asks_drafter
        text = session.target_tokenizer.text_of(session.text.decoder.tokens)
        if drafts and session.text.decoder.context:  # the drafter knows the whole text, its prompt too
            known = whole.drafter_tokenizer
            assert known is not None
            read = known.text_of(session.text.decoder.context)
            # A drafter that comes later reads the text again, and half a character as U+FFFD.
            assert read.decode("utf-8", "replace") == text.decode("utf-8", "replace")
        go_on(session, messages, plan)
        assert session.answer is not None and expected.answer is not None
        assert (session.answer.prompt_ids, session.answer.token_ids) == (
            expected.answer.prompt_ids, expected.answer.token_ids,
        )  # fmt: skip
