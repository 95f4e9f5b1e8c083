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
def loaded(bundle: Path) -> LoadedBundle:
    return load_bundle(bundle)


@pytest.mark.parametrize("mode", ["trie", "lookup", "plain"])
def test_a_saved_answer_goes_on_with_all_its_settings(
    loaded: LoadedBundle, tmp_path: Path, mode: Mode
) -> None:
    session, file = Session(loaded), tmp_path / "a"
    config = replace(ASKED, mode=mode)
    answer = session.chat(STORY, config)
    for _ in range(3):
        next(iter(answer))
    session.save(file)
    restored = Session(loaded)
    restored.load(file)
    resumed = restored.resume().finish()
    answer.finish()
    assert resumed.config == config
    assert (resumed.token_ids, resumed.text) == (answer.token_ids, answer.text)
    # Passes of other widths round in another way.
    assert resumed.logprobs == pytest.approx(answer.logprobs, abs=1e-4)
    assert len(resumed.logprobs) == len(resumed.token_ids) == 24


@pytest.mark.parametrize("change", [{"top_p": 0.0}, {"repetition_penalty": 0.0}, {"verification": "row"}])
def test_a_setting_that_cannot_be_is_refused(
    loaded: LoadedBundle, tmp_path: Path, change: dict[str, object]
) -> None:
    session, file = Session(loaded), tmp_path / "a"
    with pytest.raises(SettingError):
        session.chat(STORY, replace(ASKED, **change))  # type: ignore[arg-type]
    session.chat(STORY, replace(ASKED, max_new_tokens=4)).finish()
    session.save(file)
    state, cache = decode_session(file.read_bytes())
    assert state.answer is not None
    wrong = replace(state.answer, config=replace(state.answer.config, **change))  # type: ignore[arg-type]
    short = replace(state.answer, logprobs=state.answer.logprobs[1:])
    for damaged in (wrong, short):
        with pytest.raises(SessionFileError) as caught:
            decode_session(encode_session(replace(state, answer=damaged), cache))
        assert caught.value.fault == "state"


def test_a_session_carries_its_cache_as_a_cache_file(loaded: LoadedBundle, tmp_path: Path) -> None:
    session = Session(loaded)
    session.cache.prefill()
    session.chat(STORY, GenerationConfig(max_new_tokens=16)).finish()
    session.save(tmp_path / "a")
    data = decode_session((tmp_path / "a").read_bytes())[1]
    assert len(decode(data)) == len(session.cache) > 0
    session.save_cache(tmp_path / "cache")
    assert (tmp_path / "cache").read_bytes() == data
    restored = Session(loaded, cache=tmp_path / "cache")
    assert restored.cache_notice is None
    assert restored.cache.entries() == session.cache.entries()
    restored.load(tmp_path / "a")
    assert restored.cache.entries() == session.cache.entries()
    restored.save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()


def test_without_a_drafter_lookup_still_drafts(bundle: Path) -> None:
    prompt = "one two three four one two three four one two three"
    without_drafter = Session(load_bundle(bundle, drafter=False))
    whole = load(bundle)
    copied = without_drafter.generate(prompt, max_new_tokens=24, mode="lookup", raw=True).finish()
    plain = whole.generate(prompt, max_new_tokens=24, mode="plain", raw=True).finish()
    assert copied.token_ids == plain.token_ids
    assert copied.statistics.drafted > 0
    assert without_drafter.generate(prompt, max_new_tokens=8, raw=True).finish().statistics.drafted == 0
    command = ["generate", str(bundle), prompt, "--raw", "-n", "24", "--no-drafter", "--mode", "lookup"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert result.stdout == copied.text


def test_after_an_answer_without_the_drafter_its_context_is_whole(loaded: LoadedBundle) -> None:
    """Turns in other modes keep no draft ids; the next turn spells the whole text."""
    for mode in ("plain", "lookup"):
        session = Session(loaded)
        session.chat(STORY, GenerationConfig(8, mode=mode)).finish()
        answer = session.chat("And then?", GenerationConfig(8)).finish()
        prompt = session.draft_prompt(answer.prompt_ids)
        assert session.text.decoder.context[: len(prompt)] == prompt


def test_how_often_drafts_are_accepted_is_known_in_the_next_answer(
    loaded: LoadedBundle, tmp_path: Path
) -> None:
    """Where the wait for a probe is longer than an answer, several answers share it."""
    costs = replace(
        loaded.bundle.costs, target=(1.0, 1.05, 1.1), draft=0.3, host=0.1, read=0.0, acceptance=0.1
    )

    def drafted(temperature: float, seed: int | None) -> list[int]:
        session = Session(loaded)
        session.costs = costs
        drafted_tokens = []
        for _ in range(4):
            answer = session.generate(
                STORY, max_new_tokens=16, temperature=temperature, seed=seed, ignore_eos=True
            )
            drafted_tokens.append(answer.finish().statistics.drafted)
        return drafted_tokens

    session = Session(loaded)
    session.costs = costs
    drafted_tokens = []
    for i in range(4):
        answer = session.generate(STORY, max_new_tokens=16, ignore_eos=True).finish()
        drafted_tokens.append(answer.statistics.drafted)
        if i == 0:  # a restart in between changes nothing
            session.save(tmp_path / "s")
            session = Session(loaded)
            session.load(tmp_path / "s")
    assert drafted_tokens[0] == 0 < sum(drafted_tokens)
    assert sum(drafted(0.0, None)) > 0 and sum(drafted(0.8, None)) > 0
    assert sum(drafted(0.0, 7)) > 0, "the drafts do not change greedy text"
    assert drafted(0.8, 7) == [0, 0, 0, 0], "with a given seed the counts begin again"


def test_what_is_new_in_a_conversation_is_what_the_drafter_has_to_read(loaded: LoadedBundle) -> None:
    """After turns that it drafted, after a turn that it did not, and in a new text."""
    read, unread = [], []
    for draft in (0.01, 100.0):  # every round drafts; no round does
        session = Session(loaded)
        session.costs = replace(loaded.bundle.costs, target=(1.0, 1.01), draft=draft, host=0.0, read=1e-6)
        answer = session.chat(STORY, GenerationConfig(8, ignore_eos=True))
        prompt = len(session.text.decoder.context)
        assert session.text.draft_length.unread == prompt
        answer.finish()
        unread.append(session.text.draft_length.unread)
        known = len(session.text.decoder.context)
        session.chat("And then?", GenerationConfig(8, ignore_eos=True))
        assert session.text.decoder.context[:known] and len(session.text.decoder.context) > known
        read.append((session.text.draft_length.unread, len(session.text.decoder.context) - known, prompt))
        session.generate(STORY, max_new_tokens=8)
        assert session.text.draft_length.unread == prompt, "a new text is read from its beginning"
    (drafted, new, _), (plain, newer, prompt) = read
    assert unread[0] == 0 and drafted == new
    assert unread[1] == prompt + 8 and plain >= newer + prompt


def test_how_much_may_be_said_decides_whether_the_prompt_is_read(loaded: LoadedBundle) -> None:
    session = Session(loaded)
    session.costs = replace(
        loaded.bundle.costs, target=(1.0, 1.05, 1.1), draft=0.05, host=0.0, read=0.5, acceptance=0.9
    )
    drafted = [
        session.generate(STORY, max_new_tokens=count, seed=7, temperature=0.5, ignore_eos=True)
        .finish()
        .statistics.drafted
        for count in (2, 24, 2)
    ]
    assert drafted[0] == drafted[2] == 0 < drafted[1]


def test_measuring_counts_what_is_accepted(loaded: LoadedBundle) -> None:
    """The bundle's acceptance, from other prompts, has less weight than the acceptance on this prompt."""
    acceptances = []
    for recorded in (0.0, 1.0):
        session = Session(
            replace(
                loaded,
                bundle=replace(loaded.bundle, costs=replace(loaded.bundle.costs, acceptance=recorded)),
            )
        )
        acceptances.append(session.measure(STORY).acceptance)
    low, high = acceptances
    assert 0.0 < low < high < 1.0
    assert high - low < 0.5, "the prompt has more weight than the recorded acceptance"
