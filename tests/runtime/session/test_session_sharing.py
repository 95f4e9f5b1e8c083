"""Sessions on one loaded bundle: nothing else is shared, and each session has one user at a time."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from test_session import STORY, ids_of, watch

from omnidraft import GenerationConfig, LanguageModel, TextSession
from omnidraft.errors import SessionError
from omnidraft.runtime.models.ort_model import OrtModel


def test_sessions_share_weights_and_nothing_else(loaded: LanguageModel) -> None:
    a, b = TextSession(loaded), TextSession(loaded)
    a_target, b_target = a.models.all[0], b.models.all[0]
    assert isinstance(a_target, OrtModel) and isinstance(b_target, OrtModel)
    assert a_target._session is b_target._session
    alone = [ids_of(TextSession(loaded).generate(p, max_new_tokens=16)) for p in (STORY, "What is 3 and 4?")]
    first, second = a.generate(STORY, max_new_tokens=16), b.generate("What is 3 and 4?", max_new_tokens=16)
    streams = iter(first), iter(second)
    ended = [False, False]
    while not all(ended):  # in turns, piece by piece
        for i, stream in enumerate(streams):
            ended[i] = next(stream, None) is None
    assert [first.token_ids, second.token_ids] == alone
    a.cache.prefill()
    assert len(b.cache) < len(a.cache)


def test_two_threads_say_what_each_says_alone(loaded: LanguageModel) -> None:
    prompts = [STORY, "What is 3 and 4?", "Write a function.", "Why is the sky blue?"]
    for temperature in (0.0, 1.0):
        config = GenerationConfig(max_new_tokens=40, temperature=temperature, seed=11, num_draft_tokens=4)

        def say(prompt: str, config: GenerationConfig = config) -> list[list[int]]:
            session = TextSession(loaded)
            return [ids_of(session.chat(text, config)) for text in (prompt, "And then?")]

        alone = [say(prompt) for prompt in prompts]
        results: dict[int, list[list[int]]] = {}
        start = threading.Barrier(len(prompts))

        def work(
            i: int, results: dict[int, list[list[int]]] = results, start: threading.Barrier = start
        ) -> None:
            start.wait()
            results[i] = say(prompts[i])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [results[i] for i in range(len(prompts))] == alone


def test_one_session_refuses_a_second_thread(session: TextSession) -> None:
    answer = session.generate(STORY, max_new_tokens=6)
    refused: list[SessionError] = []

    def intrude() -> None:
        for use in (answer.finish, session.reset, lambda: session.generate(STORY)):
            try:
                use()
            except SessionError as error:
                refused.append(error)

    def seen(model: int, position: int) -> None:
        if not refused:
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()

    watch(session, seen)
    assert len(ids_of(answer)) == 6
    assert len(refused) == 3
    assert "another thread; cancel its text and wait" in str(refused[0])


def test_an_older_generation_is_refused(session: TextSession) -> None:
    old = session.generate(STORY, max_new_tokens=6)
    next(iter(old))
    new = session.generate("What is 3 and 4?", max_new_tokens=6)
    with pytest.raises(SessionError, match="newer generation"):
        old.finish()
    assert len(ids_of(new)) == 6


def test_a_session_that_nobody_holds_is_freed_at_once(loaded: LanguageModel) -> None:
    """Its buffers take megabytes, and the collector of cycles counts objects: it would come late."""
    gc.disable()
    try:
        session = TextSession(loaded)
        session.chat("What is 3 and 4?", max_new_tokens=6).finish()
        session.chat("And 5?", max_new_tokens=6, temperature=1.0, num_draft_tokens=2).finish()
        models, generation = weakref.ref(session.models), session.generate("Hello", max_new_tokens=6)
        del session
        assert len(generation.finish().token_ids) > 0, "a generation goes on without its session"
        del generation
        assert models() is None
    finally:
        gc.enable()
