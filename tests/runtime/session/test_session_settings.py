"""Sampling settings, log-probabilities, the lookup mode and the n-gram cache in sessions and their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from typer.testing import CliRunner

from omnidraft import GenerationConfig, LanguageModel, TextSession, load, load_bundle
from omnidraft.cli import app
from omnidraft.runtime.decoding.draft_length import MOST_UNREAD
from omnidraft.runtime.decoding.drafter import READ_CHUNK
from omnidraft.runtime.decoding.model import Logits
from omnidraft.runtime.session.session_file import decode_session
from omnidraft.runtime.vocab.cache_file import decode
from support.command_line import config

STORY = "Tell me a story."


def test_a_session_carries_its_cache_as_a_cache_file(loaded: LanguageModel, tmp_path: Path) -> None:
    session = TextSession(loaded)
    session.cache.prefill()
    session.chat(STORY, GenerationConfig(max_new_tokens=16)).finish()
    session.save(tmp_path / "a")
    data = decode_session((tmp_path / "a").read_bytes())[1]
    assert len(decode(data)) == len(session.cache) > 0
    session.save_cache(tmp_path / "cache")
    assert (tmp_path / "cache").read_bytes() == data
    restored = TextSession(loaded, cache=tmp_path / "cache")
    assert restored.notices == []
    assert restored.cache.entries() == session.cache.entries()
    restored.load(tmp_path / "a")
    assert restored.cache.entries() == session.cache.entries()
    restored.save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_without_a_drafter_lookup_still_drafts(bundle: Path) -> None:
    prompt = "one two three four one two three four one two three"
    without_drafter = TextSession(load_bundle(bundle, drafter=False))
    whole = load(bundle)
    copied = without_drafter.generate(prompt, max_new_tokens=24, mode="lookup", raw=True).finish()
    plain = whole.generate(prompt, max_new_tokens=24, mode="plain", raw=True).finish()
    assert copied.token_ids == plain.token_ids
    assert copied.statistics.copied > 0 == copied.statistics.drafted
    assert without_drafter.generate(prompt, max_new_tokens=8, raw=True).finish().statistics.drafted == 0
    command = ["generate", str(bundle), prompt, "--raw", "-n", "24", "--mode", "lookup"]
    result = CliRunner().invoke(app, [*command, *map(str, config(drafter=False))])
    assert result.exit_code == 0, result.output
    assert result.stdout == copied.text + "\n"


def test_after_an_answer_without_the_drafter_its_context_is_whole(loaded: LanguageModel) -> None:
    """Turns in other modes keep no draft ids; the next turn spells the whole text."""
    for mode in ("plain", "lookup"):
        session = TextSession(loaded)
        session.chat(STORY, GenerationConfig(8, mode=mode)).finish()
        answer = session.chat("And then?", GenerationConfig(8)).finish()
        prompt = session.loaded.draft_prompt(answer.prompt_ids)
        assert session.text.decoder.context[: len(prompt)] == prompt


def test_how_often_drafts_are_accepted_is_known_in_the_next_answer(
    loaded: LanguageModel, tmp_path: Path
) -> None:
    """Where the wait for a probe is longer than an answer, several answers share it."""
    costs = replace(loaded.bundle.costs, target=(1.0, 1.05, 1.1), draft=0.03, host=0.1, acceptance=0.1)

    def drafted(temperature: float, seed: int | None) -> list[int]:
        session = TextSession(loaded)
        session.costs = costs
        drafted_tokens = []
        for _ in range(8):
            answer = session.generate(
                STORY, max_new_tokens=16, temperature=temperature, seed=seed, ignore_eos=True
            )
            drafted_tokens.append(answer.finish().statistics.drafted)
        return drafted_tokens

    session = TextSession(loaded)
    session.costs = costs
    drafted_tokens = []
    for i in range(8):
        answer = session.generate(STORY, max_new_tokens=16, ignore_eos=True).finish()
        drafted_tokens.append(answer.statistics.drafted)
        if i == 0:  # a restart in between changes nothing
            session.save(tmp_path / "s")
            session = TextSession(loaded)
            session.load(tmp_path / "s")
    assert drafted_tokens[0] == 0 < sum(drafted_tokens)
    assert sum(drafted(0.0, None)) > 0 and sum(drafted(0.8, None)) > 0
    assert sum(drafted(0.0, 7)) > 0, "the drafts do not change greedy text"
    assert drafted(0.8, 7) == [0] * 8, "with a given seed the counts begin again"


def test_the_drafter_reads_the_end_of_a_long_text_and_then_what_is_new(loaded: LanguageModel) -> None:
    """A fixed length reads all of the text, in short passes; the length auto few tokens of it."""
    long = " ".join([STORY] * 20)

    def watched(num_draft_tokens: int | Literal["auto"]) -> tuple[list[int], TextSession]:
        session, passes = TextSession(loaded), list[int]()
        session.costs = replace(loaded.bundle.costs, target=(1.0, 1.01), draft=0.01, host=0.0)
        model = session.models.drafter.model
        score = model.score

        def scored(tokens: Sequence[int], num_logits: int | None = None) -> Logits:
            passes.append(len(tokens))
            return score(tokens, num_logits)

        model.score = scored  # type: ignore[method-assign]
        session.chat(long, GenerationConfig(8, num_draft_tokens=num_draft_tokens, ignore_eos=True)).finish()
        return passes, session

    passes, session = watched(2)
    assert session.answer is not None
    length = len(session.loaded.draft_prompt(session.answer.prompt_ids))
    assert length > 2 * READ_CHUNK and max(passes) <= READ_CHUNK and sum(passes) > length
    passes.clear()
    session.chat("And then?", GenerationConfig(8, num_draft_tokens=2, ignore_eos=True)).finish()
    assert sum(passes) < 80, "the first turn is not read again"
    passes, _ = watched("auto")
    assert 0 < sum(passes) < MOST_UNREAD + READ_CHUNK


def test_measuring_keeps_the_acceptance_of_the_pair(loaded: LanguageModel) -> None:
    """A few rounds of one prompt say little about it; a low count would stop drafts before they begin."""
    session = TextSession(loaded)
    known = loaded.bundle.costs
    measured = session.measure(STORY)
    assert measured.acceptance == known.acceptance and measured.target != known.target
