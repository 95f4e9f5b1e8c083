"""Sampling settings, log-probabilities, the lookup mode and the n-gram cache in sessions and their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnidraft import GenerationConfig, LoadedBundle, Session, load, load_bundle
from omnidraft.cli import app
from omnidraft.errors import SessionFileError, SettingError
from omnidraft.runtime.decoding.baselines import Mode
from omnidraft.runtime.session.session_file import decode_session, encode_session
from omnidraft.runtime.vocab.cache_file import decode

STORY = "Tell me a story."
ASKED = GenerationConfig(
    24, 0.9, 7, num_draft_tokens=4, top_k=60, top_p=0.95, min_p=0.01, repetition_penalty=1.1,
    verification="block", logprobs=True, stop=("\u2603",),
)  # fmt: skip


@pytest.fixture(scope="module")
def weights(bundle: Path) -> LoadedBundle:
    return load_bundle(bundle)


@pytest.mark.parametrize("mode", ["trie", "lookup", "plain"])
def test_a_saved_answer_goes_on_with_all_its_settings(
    weights: LoadedBundle, tmp_path: Path, mode: Mode
) -> None:
    session, file = Session(weights), tmp_path / "a"
    request = replace(ASKED, mode=mode)
    answer = session.chat(STORY, request)
    for _ in range(3):
        next(iter(answer))
    session.save(file)
    other = Session(weights)
    other.load(file)
    resumed = other.resume().finish()
    answer.finish()
    assert resumed.config == request
    assert (resumed.token_ids, resumed.text) == (answer.token_ids, answer.text)
    assert resumed.logprobs == answer.logprobs
    assert len(resumed.logprobs) == len(resumed.token_ids) == 24


@pytest.mark.parametrize("change", [{"top_p": 0.0}, {"repetition_penalty": 0.0}, {"verification": "row"}])
def test_a_setting_that_cannot_be_is_refused(
    weights: LoadedBundle, tmp_path: Path, change: dict[str, object]
) -> None:
    session, file = Session(weights), tmp_path / "a"
    with pytest.raises(SettingError):
        session.chat(STORY, replace(ASKED, **change))  # type: ignore[arg-type]
    session.chat(STORY, replace(ASKED, max_new_tokens=4)).finish()
    session.save(file)
    state, cache = decode_session(file.read_bytes())
    assert state.answer is not None
    wrong = replace(state.answer, config=replace(state.answer.config, **change))  # type: ignore[arg-type]
    short = replace(state.answer, logprobs=state.answer.logprobs[1:])
    for found in (wrong, short):
        with pytest.raises(SessionFileError) as error:
            decode_session(encode_session(replace(state, answer=found), cache))
        assert error.value.fault == "state"


def test_a_session_carries_its_cache_as_a_cache_file(weights: LoadedBundle, tmp_path: Path) -> None:
    session = Session(weights)
    session.cache.prefill()
    session.chat(STORY, GenerationConfig(max_new_tokens=16)).finish()
    session.save(tmp_path / "a")
    data = decode_session((tmp_path / "a").read_bytes())[1]
    assert len(decode(data)) == len(session.cache) > 0
    session.save_cache(tmp_path / "cache")
    assert (tmp_path / "cache").read_bytes() == data
    other = Session(weights, cache=tmp_path / "cache")
    assert other.cache_notice is None
    assert other.cache.entries() == session.cache.entries()
    other.load(tmp_path / "a")
    assert other.cache.entries() == session.cache.entries()
    other.save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_without_a_drafter_lookup_still_drafts(bundle: Path) -> None:
    prompt = "one two three four one two three four one two three"
    alone = Session(load_bundle(bundle, drafter=False))
    whole = load(bundle)
    found = alone.generate(prompt, max_new_tokens=24, mode="lookup", raw=True).finish()
    plain = whole.generate(prompt, max_new_tokens=24, mode="plain", raw=True).finish()
    assert found.token_ids == plain.token_ids
    assert found.statistics.drafted > 0
    assert alone.generate(prompt, max_new_tokens=8, raw=True).finish().statistics.drafted == 0
    command = ["generate", str(bundle), prompt, "--raw", "-n", "24", "--no-drafter", "--mode", "lookup"]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.output
    assert said.stdout == found.text


def test_after_an_answer_without_the_drafter_its_context_is_whole(weights: LoadedBundle) -> None:
    """Turns in other modes leave no draft ids behind; the next turn spells the whole text."""
    for mode in ("plain", "lookup"):
        session = Session(weights)
        session.chat(STORY, GenerationConfig(8, mode=mode)).finish()
        answer = session.chat("And then?", GenerationConfig(8)).finish()
        prompt = session.draft_prompt(answer.prompt_ids)
        assert session.text.decoder.context[: len(prompt)] == prompt


def test_how_often_drafts_are_accepted_is_known_in_the_next_answer(
    weights: LoadedBundle, tmp_path: Path
) -> None:
    """Where a probe takes longer to come due than an answer is long, several answers share the wait."""
    costs = replace(
        weights.bundle.costs, target=(1.0, 1.05, 1.1), draft=0.3, host=0.1, read=0.0, acceptance=0.1
    )

    def drafted(temperature: float, seed: int | None) -> list[int]:
        session = Session(weights)
        session.costs = costs
        found = []
        for _ in range(4):
            answer = session.generate(
                STORY, max_new_tokens=16, temperature=temperature, seed=seed, ignore_eos=True
            )
            found.append(answer.finish().statistics.drafted)
        return found

    session = Session(weights)
    session.costs = costs
    found = []
    for i in range(4):
        answer = session.generate(STORY, max_new_tokens=16, ignore_eos=True).finish()
        found.append(answer.statistics.drafted)
        if i == 0:  # and a restart in between changes nothing
            session.save(tmp_path / "s")
            session = Session(weights)
            session.load(tmp_path / "s")
    assert found[0] == 0 < sum(found)
    assert sum(drafted(0.0, None)) > 0 and sum(drafted(0.8, None)) > 0
    assert sum(drafted(0.0, 7)) > 0, "greedy text has nothing to repeat"
    assert drafted(0.8, 7) == [0, 0, 0, 0], "what a seed repeats begins anew"


def test_what_is_new_in_a_conversation_is_what_the_drafter_has_to_read(weights: LoadedBundle) -> None:
    """After turns that it drafted, after one that it did not, and in a text of its own."""
    read, left = [], []
    for draft in (0.01, 100.0):  # every round drafts, and none does
        session = Session(weights)
        session.costs = replace(weights.bundle.costs, target=(1.0, 1.01), draft=draft, host=0.0, read=1e-6)
        answer = session.chat(STORY, GenerationConfig(8, ignore_eos=True))
        prompt = len(session.text.decoder.context)
        assert session.text.draft_length.unread == prompt
        answer.finish()
        left.append(session.text.draft_length.unread)
        known = len(session.text.decoder.context)
        session.chat("And then?", GenerationConfig(8, ignore_eos=True))
        assert session.text.decoder.context[:known] and len(session.text.decoder.context) > known
        read.append((session.text.draft_length.unread, len(session.text.decoder.context) - known, prompt))
        session.generate(STORY, max_new_tokens=8)
        assert session.text.draft_length.unread == prompt, "a text of its own is read from its beginning"
    (drafted, new, _), (plain, newer, prompt) = read
    assert left[0] == 0 and drafted == new
    assert left[1] == prompt + 8 and plain >= newer + prompt


def test_how_much_may_be_said_decides_whether_the_prompt_is_read(weights: LoadedBundle) -> None:
    session = Session(weights)
    session.costs = replace(
        weights.bundle.costs, target=(1.0, 1.05, 1.1), draft=0.05, host=0.0, read=0.5, acceptance=0.9
    )
    drafted = [
        session.generate(STORY, max_new_tokens=count, seed=7, temperature=0.5, ignore_eos=True)
        .finish()
        .statistics.drafted
        for count in (2, 24, 2)
    ]
    assert drafted[0] == drafted[2] == 0 < drafted[1]


def test_measuring_counts_what_is_accepted(weights: LoadedBundle) -> None:
    """A bundle's figure, from other prompts, gives way to what this prompt shows."""
    found = []
    for recorded in (0.0, 1.0):
        session = Session(
            replace(
                weights,
                bundle=replace(weights.bundle, costs=replace(weights.bundle.costs, acceptance=recorded)),
            )
        )
        found.append(session.measure(STORY).acceptance)
    low, high = found
    assert 0.0 < low < high < 1.0
    assert high - low < 0.5, "the prompt counts for more than what was recorded"
