"""Sessions: stop strings, conversations, cancelling and limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnidraft import Generation, GenerationConfig, LanguageModel, TextSession, load_bundle
from omnidraft.errors import ContextError, PromptError, SettingError
from omnidraft.runtime.decoding.prefill import PREFILL_CHUNK
from omnidraft.runtime.models.ort_model import OrtModel
from omnidraft.runtime.session.conversation import first_kept
from omnidraft.runtime.session.modes import Mode

STORY = "Tell me a story."
LONG = "How many apples are there in all? " * 24  # more than one chunk of a prompt
MODES: list[Mode] = ["plain", "trie", "match", "direct", "lookup"]


def ids_of(answer: Generation) -> list[int]:
    return answer.finish().token_ids


class Watched:
    """A graph that calls a function before each of its runs."""

    def __init__(self, graph: Any, seen: Callable[[], None]) -> None:
        self._graph, self._seen = graph, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    def run_with_iobinding(self, binding: object, options: object) -> None:
        self._seen()
        self._graph.run_with_iobinding(binding, options)


def watch(session: TextSession, seen: Callable[[int, int], None]) -> None:
    """Call `seen(model, position)` before each run of a graph: model 0 is the target, 1 the drafter.

    The position is where the run ends, the number of tokens in the context after it.
    """
    for number, model in enumerate(session.models.all):
        assert isinstance(model, OrtModel)

        def notify(number: int = number, model: object = model) -> None:
            assert isinstance(model, OrtModel)
            seen(number, int(model._total.item()))

        assert isinstance(model, OrtModel)
        model._engine._session = Watched(model._session, notify)


# Stop strings, on a real model


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_stop_string_ends_the_answer_wherever_it_is(session: TextSession, mode: Mode, count: int) -> None:
    whole = session.generate(STORY, max_new_tokens=40, mode="plain").finish()
    session.cache.prefill()
    for start in range(1, 40, 6):
        for length in (1, 3, 11):
            stop = whole.text[start : start + length]
            answer = session.generate(
                STORY, max_new_tokens=40, mode=mode, num_draft_tokens=count, stop=[stop, "\u2603"]
            )
            pieces = "".join(piece.text for piece in answer)
            assert pieces == answer.text == whole.text[: whole.text.index(stop)]
            assert (answer.stop_reason, answer.stop_string) == ("stop", stop)
            assert answer.token_ids == whole.token_ids[: len(answer.token_ids)]
            assert answer.statistics.emitted == len(answer.token_ids)
            written = session.target_tokenizer.text_of(answer.token_ids).decode("utf-8", "ignore")
            assert stop in written
            before = session.target_tokenizer.text_of(answer.token_ids[:-1])
            assert stop.encode() not in before, "a token after the end was emitted"


def test_settings_are_refused_before_anything_happens(session: TextSession) -> None:
    answer = session.generate(STORY, max_new_tokens=8)
    with pytest.raises(SettingError, match="stop string"):
        session.generate(STORY, stop=[""])
    with pytest.raises(SettingError, match="max_new_tokens 0"):
        session.chat(STORY, GenerationConfig(max_new_tokens=0))
    with pytest.raises(PromptError, match="surrogate"):
        session.generate("half \ud83d")
    assert len(answer.finish().token_ids) == 8, "the running generation continues"


# Conversations


def test_a_conversation_reads_only_what_is_new(loaded: LanguageModel, session: TextSession) -> None:
    target = session.models.all[0]
    scored = 0

    def count(model: int, position: int) -> None:
        nonlocal scored
        scored += (model == 0) * (position - target.length)

    watch(session, count)
    first = session.chat(STORY, GenerationConfig(max_new_tokens=20, num_draft_tokens=3)).finish()
    assert scored >= len(first.prompt_ids) + 19
    scored = 0
    second = session.chat("And then?", GenerationConfig(max_new_tokens=1, num_draft_tokens=0)).finish()
    known = len(first.prompt_ids) + len(first.token_ids)
    assert list(second.prompt_ids[:known]) == [*first.prompt_ids, *first.token_ids]
    # The target has not read the last token of an answer, because nothing followed it.
    assert scored == len(second.prompt_ids) - (known - 1)
    assert ids_of(TextSession(loaded).generate(second.prompt_ids, max_new_tokens=1)) == second.token_ids


@pytest.mark.parametrize("count", [0, 1, 4])
def test_every_turn_says_what_a_fresh_session_says(
    loaded: LanguageModel, session: TextSession, count: int
) -> None:
    for message in (STORY, "And then?", "Why?", "What is 3 and 4?"):
        answer = session.chat(message, GenerationConfig(max_new_tokens=24, num_draft_tokens=count)).finish()
        fresh = TextSession(loaded).generate(answer.prompt_ids, max_new_tokens=24, mode="plain").finish()
        assert answer.token_ids == fresh.token_ids
        assert answer.text == fresh.text


def test_answers_stay_the_ids_that_were_said_and_lose_their_end(session: TextSession) -> None:
    """After an end token, after a stop string inside a token, and after the limit."""
    tokenizer = session.target_tokenizer
    first = session.chat(STORY, GenerationConfig(max_new_tokens=30)).finish()
    token = next(t for t in first.token_ids[4:] if len(tokenizer.text_of([t])) > 2)
    stop = tokenizer.text_of([token]).decode()[1:]  # begins inside a token
    session.reset()
    cut = session.chat(STORY, GenerationConfig(max_new_tokens=30, stop=(stop,))).finish()
    assert cut.stop_string == stop
    session.chat("Go on.", GenerationConfig(max_new_tokens=2)).finish()
    kept = session.turns[0].answer
    assert tokenizer.text_of(kept).decode() == cut.text
    whole = len(cut.token_ids) - 1
    while not cut.text.encode().startswith(tokenizer.text_of(cut.token_ids[:whole])):
        whole -= 1
    assert list(kept[:whole]) == cut.token_ids[:whole]
    ended = session.chat(
        "Sam has 2 pens and buys 3. How many pens?", GenerationConfig(max_new_tokens=200)
    ).finish()
    assert ended.stop_reason == "eos", "the test needs an answer that ends"
    session.chat("Go on.", GenerationConfig(max_new_tokens=1)).finish()
    assert list(session.turns[-1].answer) == ended.token_ids[:-1]
    eos = session.bundle.target.eos_ids[0]
    prompt = session.answer.prompt_ids if session.answer else ()
    assert list(prompt).count(eos) == len(session.turns), "each answer has one end token"


# Cancelling


@pytest.mark.parametrize("after", [0, 1, 2, 3, 4, 6, 9, 14])
@pytest.mark.parametrize("prompt", [STORY, LONG])
def test_no_graph_runs_after_a_cancel(
    loaded: LanguageModel, session: TextSession, prompt: str, after: int
) -> None:
    """From another thread, during a run of either graph: in the prompt, in a draft, in a verification."""
    runs: list[int] = []
    late: list[int] = []
    lock = threading.Lock()
    config = GenerationConfig(max_new_tokens=24, num_draft_tokens=4)
    reference = ids_of(TextSession(loaded).chat(prompt, config))
    answer = session.chat(prompt, config)

    def seen(model: int, position: int) -> None:
        if answer.stop_reason is not None:
            return  # a run of a later generation
        with lock:
            (late if answer.is_cancelled else runs).append(model)
            if len(runs) == after and not answer.is_cancelled:
                thread = threading.Thread(target=answer.cancel)
                thread.start()
                thread.join()

    watch(session, seen)
    if after == 0:
        answer.cancel()
    pieces = list(answer)
    assert answer.stop_reason == "cancelled"
    assert len(runs) == after
    assert late == [], "a graph ran after the cancellation"
    assert answer.token_ids == reference[: len(answer.token_ids)]
    assert "".join(p.text for p in pieces) == answer.text
    assert list(answer) == [], "a cancelled generation has ended"
    # The session is usable, and its next answer is right.
    following = session.chat("And then?", config).finish()
    fresh = TextSession(loaded).generate(following.prompt_ids, max_new_tokens=24, mode="plain").finish()
    assert following.token_ids == fresh.token_ids
    assert ids_of(session.chat("Why?", config)) and len(session.turns) == 2


def test_a_cancelled_prompt_is_not_read_twice(session: TextSession) -> None:
    answer = session.generate(LONG, max_new_tokens=4, mode="plain")
    read: list[int] = []

    def seen(model: int, position: int) -> None:
        read.append(position - session.models.all[0].length)
        if len(read) == 2 and not answer.is_cancelled:
            answer.cancel()

    watch(session, seen)
    answer.finish()
    assert read == [PREFILL_CHUNK, PREFILL_CHUNK] and not answer.token_ids
    read.clear()
    again = session.generate(LONG, max_new_tokens=1, mode="plain")
    again.finish()
    # The run that was interrupted counts for nothing, and the one before it is kept.
    assert sum(read) == len(again.prompt_ids) - PREFILL_CHUNK


def test_an_exception_in_a_graph_leaves_the_session_usable(
    loaded: LanguageModel, session: TextSession
) -> None:
    reference = ids_of(TextSession(loaded).generate(STORY, max_new_tokens=20))
    for fails in range(1, 12, 2):
        broken = TextSession(loaded)
        runs: list[int] = []

        def seen(model: int, position: int, runs: list[int] = runs, fails: int = fails) -> None:
            runs.append(model)
            if len(runs) == fails:
                raise KeyboardInterrupt

        watch(broken, seen)
        with pytest.raises(KeyboardInterrupt):
            broken.generate(STORY, max_new_tokens=20, num_draft_tokens=3).finish()
        assert ids_of(broken.generate(STORY, max_new_tokens=20, num_draft_tokens=3)) == reference


# Limits


def test_prompts_at_and_over_the_limit(session: TextSession) -> None:
    limit = session.bundle.target.kv.max_length
    ids = (session.encode(STORY) * limit)[:limit]
    for room in (0, 1, 5):
        answer = session.generate(ids[: limit - room], max_new_tokens=50, ignore_eos=True)
        pieces = "".join(piece.text for piece in answer)
        assert answer.stop_reason == "context"
        assert len(answer.token_ids) == room + 1
        assert pieces == answer.text
    with pytest.raises(ContextError, match=rf"{limit + 1} tokens .* holds {limit}.*--max-length"):
        session.generate([*ids, 5])
    with pytest.raises(PromptError, match="no tokens"):
        session.generate([])


def test_a_full_conversation_is_refused_and_stays(loaded: LanguageModel, session: TextSession) -> None:
    with pytest.raises(
        ContextError, match="shorten it, or export with a larger --max-length where the target"
    ):
        session.chat("word " * 300)
    session.chat(STORY, GenerationConfig(max_new_tokens=8)).finish()
    before = session.turns, session.message, session.answer
    with pytest.raises(ContextError, match=r"undo\(\) takes the last one back, reset\(\) begins a new conv"):
        session.chat("word " * 300)
    listed = [
        {"role": role, "content": "word " * 80} for role in ("user", "assistant", "user", "assistant", "user")
    ]
    with pytest.raises(ContextError, match="shorten the message, or leave out earlier ones"):
        session.chat(listed)
    assert (session.turns, session.message, session.answer) == before
    answer = session.chat("And then?", GenerationConfig(max_new_tokens=8)).finish()
    assert answer.token_ids == ids_of(TextSession(loaded).generate(answer.prompt_ids, max_new_tokens=8))


def test_the_oldest_turns_are_left_out_so_that_half_of_the_context_is_free() -> None:
    for sizes, new, left_out in (
        ([75, 60, 40, 20], 25, 0),  # all fit
        ([76, 60, 40, 20], 25, 3),  # a quarter of the context is kept free, whatever the answer may take
        ([76, 60, 40, 20], 999, 3),
        ([91, 80, 41, 20], 10, 3),
        ([91, 80, 40, 20], 10, 2),
        ([120, 110], 10, 1),  # the message alone does not fit: it is refused without earlier turns
    ):
        assert first_kept(sizes.__getitem__, len(sizes), 100, new) == left_out, (sizes, new)
    read = list[int]()
    assert first_kept(lambda i: read.append(i) or 2 * (10**5 - i), 10**5, 100, 10) == 10**5 - 20  # type: ignore[func-returns-value]
    assert len(read) < 20, "few of many turns are encoded to find out"


def test_a_conversation_without_end(loaded: LanguageModel, session: TextSession) -> None:
    session.drops_oldest, session.system = True, "Count."
    config, dropped, longest = GenerationConfig(max_new_tokens=16, ignore_eos=True), 0, 0
    for number in range(12):
        answer = session.chat(f"Message {number}. " + STORY, config).finish()
        dropped += answer.dropped_turns
        assert answer.stop_reason == "length", "there was room for the whole answer"
        assert session.context_used == len(answer.prompt_ids) + 16 <= session.context_size
        assert len(session.turns) == number - dropped
        longest = max(longest, len(session.turns))
    assert dropped > 1 and longest > 1
    fresh = TextSession(loaded)
    fresh.system = "Count."
    assert answer.token_ids == ids_of(fresh.generate(answer.prompt_ids, config))
    assert b"Count." in session.target_tokenizer.text_of(answer.prompt_ids)
    with pytest.raises(ContextError, match="shorten it"):
        session.chat("word " * 300)


# Without a drafter


def test_without_a_drafter_every_mode_is_plain(bundle: Path, session: TextSession) -> None:
    plain = TextSession(load_bundle(bundle, drafter=False))
    assert plain.loaded.drafter is None and len(plain.models.all) == 1
    for temperature in (0.0, 1.0):
        config = GenerationConfig(max_new_tokens=24, temperature=temperature, seed=3, num_draft_tokens=5)
        plain.reset()
        answer = plain.chat(STORY, config).finish()
        assert answer.statistics.drafted == 0
        alone = session.generate(STORY, max_new_tokens=24, temperature=temperature, seed=3, mode="plain")
        assert answer.token_ids == ids_of(alone)


@pytest.mark.parametrize("pieces", [0, 5, 200])
def test_a_copy_goes_on_alike_and_the_original_is_untouched(loaded: LanguageModel, pieces: int) -> None:
    """At a temperature with a fixed length, so that random numbers and n-grams are copied, too."""
    settings: dict[str, Any] = {"max_new_tokens": 48, "temperature": 0.8, "seed": 7, "num_draft_tokens": 3}
    session, unbroken = TextSession(loaded), TextSession(loaded)
    session.drops_oldest = True
    for each in (session, unbroken):
        each.system = "Answer in verse."
        ids_of(each.chat("Who are you?", **settings))
    answer = session.chat(STORY, ignore_eos=True, **settings)
    for _, _ in zip(range(pieces), answer, strict=False):
        pass
    copy = session.copy()
    assert copy.models.target is not session.models.target and copy.cache is not session.cache
    assert (copy.drops_oldest, copy.system, copy.stats.answers) == (True, session.system, 0)
    expected = ids_of(unbroken.chat(STORY, ignore_eos=True, **settings))
    rest = copy.resume() if answer.stop_reason is None else copy.answer
    assert rest is not None and ids_of(rest) == expected
    said = [ids_of(copy.chat("And then?", **settings)) for _ in range(2)]
    assert ids_of(answer) == expected, "the copy wrote two more texts meanwhile"
    assert len(session.turns) == 1
    assert [ids_of(session.chat("And then?", **settings)) for _ in range(2)] == said
    assert [ids_of(unbroken.chat("And then?", **settings)) for _ in range(2)] == said


def test_a_copy_has_the_settings_of_the_models(loaded: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(loaded, bitwise=True, trace=tmp_path / "traces")
    ids_of(session.generate(STORY, max_new_tokens=4))
    copy = session.copy()
    assert type(copy.models.target) is type(session.models.target) and copy.trace is None
    assert copy.context_used == session.context_used and copy.text.decoder is not session.text.decoder
