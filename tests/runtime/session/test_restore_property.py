"""A session that is saved at any moment and loaded anew says what it would have said.

Over random vocabularies, caches and models: graphs in onnxruntime whose logits depend on what their KV
buffers hold, so that a context that was not read again, or read otherwise, is noticed.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from omnidraft import Generation, GenerationConfig, LoadedBundle, Session
from omnidraft.errors import ContextError
from omnidraft.runtime.decoding.draft_length import Costs
from omnidraft.runtime.vocab.ngram_cache import NgramCache, Policy
from support.tiny_worlds import random_text, random_weights, without_drafter


def requests(most_new: int) -> st.SearchStrategy[GenerationConfig]:
    """Any settings but a stop string, which is text of the model."""
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
    """A conversation in a random world, and after how many rounds of which answer it is saved."""

    world: int
    capacity: int
    policy: Policy
    asked: list[GenerationConfig]
    answer: int
    rounds: int
    measured: bool


PLANS = st.builds(
    Plan,
    world=st.integers(0, 2**32),
    capacity=st.sampled_from([2, 1 << 15]),
    policy=st.sampled_from(["lfu", "lru"]),
    asked=st.lists(requests(24), min_size=2, max_size=3),
    answer=st.integers(0, 1),
    rounds=st.integers(0, 9),
    measured=st.booleans(),
)
Said = list[Any]


def begin(plan: Plan, weights: LoadedBundle) -> Session:
    """A session whose cache knows some n-grams of the map."""
    session, rng = Session(weights), np.random.default_rng(plan.world)
    if plan.measured:  # as `Session.measure` does
        session.costs = Costs((1.0, 1.0, 1.0), 0.01, 0.0)
    grams = [int(t) for t in weights.vocab_map.leaves if rng.random() < 0.5]
    session.cache = NgramCache(weights.vocab_map, capacity=plan.capacity, policy=plan.policy)
    for target_id in grams:
        session.cache.insert(target_id)
    return session


def ask(session: Session, message: str, request: GenerationConfig) -> Generation | str:
    """The next answer, or the refusal of a conversation that the context cannot hold."""
    try:
        return session.chat(message, request)
    except ContextError as error:
        return str(error)


def play(answer: Generation | str, most: int | None = None) -> Said:
    """Run an answer, for so many rounds at most, and note all that can be seen of it but the clock."""
    if isinstance(answer, str):
        return [answer]
    said: Said = []
    while answer.stop_reason is None and (most is None or len(said) < most):
        piece = next(iter(answer))
        assert piece.round is not None
        said.append({**asdict(piece.round), "text": piece.text, "seconds": None})
    return said


def end_of(session: Session) -> Said:
    """What is left when all is said."""
    answer, entries = session.answer, session.cache.entries()
    assert answer is not None
    return [
        answer.token_ids, answer.text, answer.logprobs, answer.stop_reason, answer.stop_string, entries,
        session.text.random.state, session.text.draft_length.state(), session.turns, session.message,
    ]  # fmt: skip


def emitted_of(said: Said) -> list[int]:
    """All tokens of some answers, however they were cut into rounds."""
    return [token for each in said if isinstance(each, dict) for token in each["emitted"]]


def go_on(session: Session, messages: list[str], plan: Plan) -> Said:
    """The rest of the conversation after the answer in which it may be saved."""
    said: Said = []
    for number in range(plan.answer + 1, len(plan.asked)):
        said += [*play(ask(session, messages[number], plan.asked[number])), end_of(session)]
    return said


@settings(max_examples=80, deadline=None, derandomize=True)
@given(PLANS)
def test_after_a_restart_all_is_as_without(plan: Plan) -> None:
    rng = np.random.default_rng(plan.world)
    messages = [random_text(rng, 9) for _ in plan.asked]
    with tempfile.TemporaryDirectory() as name:
        weights, file = random_weights(Path(name), rng), Path(name) / "a.session"
        never_saved, saved = begin(plan, weights), begin(plan, weights)
        for session in (never_saved, saved):
            for number in range(plan.answer):
                play(ask(session, messages[number], plan.asked[number]))
        moment = messages[plan.answer], plan.asked[plan.answer]
        whole = [*play(ask(never_saved, *moment)), end_of(never_saved), *go_on(never_saved, messages, plan)]

        answer = ask(saved, *moment)
        before = play(answer, plan.rounds)
        saved.save(file)
        loaded = Session(weights)
        loaded.cache = NgramCache(weights.vocab_map, capacity=plan.capacity, policy=plan.policy)
        loaded.load(file)
        assert loaded.answer is not None
        unfinished = loaded.answer.stop_reason is None
        rest = play(loaded.resume()) if unfinished else []
        restored = [*before, *rest, end_of(loaded), *go_on(loaded, messages, plan)]
        if all(config.num_draft_tokens != "auto" for config in plan.asked):
            assert restored == whole
        elif all(config.temperature == 0.0 for config in plan.asked):
            # The draft length "auto" begins with nothing after a restart, which changes rounds and no word.
            assert emitted_of(restored) == emitted_of(whole)
        else:  # the drafts decide which text a seed gives, not its distribution
            assert len(emitted_of(restored)) > 0
        event(f"saved amid an answer: {unfinished}, {len(rest)} rounds left")
        # Saving changed nothing for the one that was saved.
        left = play(answer) if unfinished else []
        assert [*before, *left, end_of(saved), *go_on(saved, messages, plan)] == whole


@settings(max_examples=40, deadline=None, derandomize=True)
@given(PLANS, st.lists(st.booleans(), min_size=2, max_size=4))
def test_the_drafter_may_come_and_go(plan: Plan, has_drafter: list[bool]) -> None:
    """Saved and loaded again and again, with and without it: never refused, and greedy text is the same."""
    rng = np.random.default_rng(plan.world)
    messages = [random_text(rng, 9) for _ in plan.asked]
    greedy = [replace(r, temperature=0.0, logprobs=False) for r in plan.asked]
    plan = replace(plan, asked=greedy, answer=0)
    with tempfile.TemporaryDirectory() as name:
        whole = random_weights(Path(name), rng)
        weights, file = {True: whole, False: without_drafter(whole)}, Path(name) / "a.session"
        expected = begin(plan, whole)
        play(ask(expected, messages[0], greedy[0]))
        texts = [expected.answer.text if expected.answer else ""]
        go_on(expected, messages, plan)

        session = begin(plan, weights[has_drafter[0]])
        play(ask(session, messages[0], greedy[0]), plan.rounds)
        for has in has_drafter[1:]:
            session.save(file)
            session = Session(weights[has])
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
            assert known is not None and known.text_of(session.text.decoder.context) == text
        go_on(session, messages, plan)
        assert session.answer is not None and expected.answer is not None
        assert (session.answer.prompt_ids, session.answer.token_ids) == (
            expected.answer.prompt_ids, expected.answer.token_ids,
        )  # fmt: skip
