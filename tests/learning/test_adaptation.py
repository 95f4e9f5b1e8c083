"""The online loop: it learns, keeps the target's text, rolls back worse adapters, and continues after a
restart.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from omnidraft.errors import PromptError, SettingError
from omnidraft.learning.online.adaptation import CURVE, Adaptation
from omnidraft.learning.online.adapted_target import AdaptOptions, answer_settings
from omnidraft.learning.online.curve import mean, read_curve
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.language_model import LanguageModel, load_bundle
from omnidraft.runtime.session.text_session import TextSession
from omnidraft.runtime.traces.trace_reader import read_traces
from support.adapting import (
    PROMPTS,
    REQUEST,
    SMALL,
    answers,
    begin,
    learner,
    pair_of_weights,
)


@pytest.fixture(scope="module")
def weights(learnable: Path) -> LanguageModel:
    return load_bundle(learnable)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def test_it_learns(weights: LanguageModel, place: Path) -> None:
    """The same eight questions six times: the last time a target pass gives more tokens."""
    adaptation = begin(place, weights, AdaptOptions(interval=8, passes=3, replayed=4))
    for _ in range(6):
        for prompt in PROMPTS[:8]:
            adaptation.answer(prompt, REQUEST)
    adaptation.close()
    lines = read_curve(place / CURVE)
    first, last = (mean(part)["tokens_per_target_pass"] for part in (lines[:8], lines[-8:]))
    assert first is not None and last is not None and last > first + 0.1, (first, last)
    assert [line.version for line in lines] == [n for n in range(6) for _ in range(8)]
    assert [line.event for line in lines[7::8]] == ["learned"] * 6
    losses = [line.loss for line in lines[7::8] if line.loss is not None]
    assert losses[-1] < losses[0]


def test_what_is_said_is_the_targets_own(weights: LanguageModel, place: Path) -> None:
    """Every token equals that of plain decoding, with every adapter."""
    adaptation, plain = begin(place, weights), TextSession(weights)
    versions = set()
    for i, prompt in enumerate(PROMPTS[:12]):
        versions.add(adaptation.answer(prompt, REQUEST).version)
        answer = adaptation.session.answer
        assert answer is not None and answer.seed == i and answer.statistics.drafted > 0
        assert answer.token_ids == plain.generate(prompt, max_new_tokens=24, mode="plain").finish().token_ids
    adaptation.close()
    assert versions == {0, 1, 2}


def test_every_field_of_the_config_reaches_the_session(
    weights: LanguageModel, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field of `GenerationConfig` arrives with its value and is in the settings of the profile."""
    config = GenerationConfig(
        max_new_tokens=5, temperature=0.5, seed=7, mode="lookup", num_draft_tokens=3, stop=("x",),
        ignore_eos=True, top_k=9, top_p=0.9, min_p=0.01, repetition_penalty=1.1, verification="token",
        logprobs=True,
    )  # fmt: skip
    names = [field.name for field in fields(GenerationConfig)]
    assert all(getattr(config, name) != getattr(GenerationConfig(), name) for name in names)
    adaptation, received = begin(place, weights), list[GenerationConfig]()
    generate = adaptation.session.generate

    def listen(prompt: str, *arguments: Any, **others: Any) -> Generation:
        generation = generate(prompt, *arguments, **others)
        received.append(generation.config)
        return generation

    monkeypatch.setattr(adaptation.session, "generate", listen)
    answers(adaptation, 2, config)
    adaptation.close()
    assert received[1:] == [config, replace(config, seed=8)]  # the first one measured plain decoding
    assert {name: getattr(config, name) for name in names} | {"raw": True, "stop": ["x"]} == dict(
        answer_settings(config, raw=True)
    )


def test_each_target_keeps_what_is_its_own(weights: LanguageModel, place: Path) -> None:
    """A second target in the same directory begins without an adapter and at the first prompt; what the
    first has stays.
    """
    entry = replace(weights.bundle.target, fingerprint="f" * 64)
    second_target = replace(weights, bundle=replace(weights.bundle, target=entry))
    states = []
    for target, count in ((weights, 9), (second_target, 5), (weights, 0)):
        adaptation = begin(place, target)
        if target is second_target:
            assert adaptation.progress.answered == 0 and not len(adaptation.session.cache)
        answers(adaptation, count)
        adaptation.write()
        cache, adapter = adaptation.session.cache.entries(), adaptation.session.adapters["drafter"]
        states.append((adaptation.progress.version, cache, adapter.digest))
        assert adaptation.position == (5 if target is second_target else 9)
        assert adaptation.answered == (9 if len(states) == 1 else 14)
        adaptation.close()
    assert states[0] == states[2] != states[1]
    targets = [line.target for line in read_curve(place / CURVE)]
    assert targets == [targets[0]] * 9 + [targets[9]] * 5 and targets[0] != targets[9]


def test_other_prompts_are_begun_with_what_was_learned(weights: LanguageModel, place: Path) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 6)
    adaptation.write()
    adaptation.close()
    other = Adaptation(place, learner, SMALL, prompts="others")
    other.begin(weights)
    assert (other.position, other.answered, other.progress.version) == (0, 6, 1)
    assert answers(other, 1)[0].answer == 7
    other.close()


def test_a_prompt_that_does_not_serve_changes_nothing(weights: LanguageModel, place: Path) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 1)
    with pytest.raises(PromptError):
        adaptation.answer("word " * 400, REQUEST)
    assert (adaptation.position, adaptation.answered) == (1, 1)
    adaptation.skip()
    assert answers(adaptation, 1)[0].prompt == 2
    adaptation.close()


def test_one_process_at_a_time(weights: LanguageModel, place: Path) -> None:
    first = begin(place, weights)
    with pytest.raises(SettingError, match="in use by another `omnidraft learn`"):
        Adaptation(place, learner)
    first.close()
    Adaptation(place, learner).close()


def test_what_is_kept_is_private_and_bounded(weights: LanguageModel, place: Path) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 21)
    adaptation.write()
    adaptation.close()
    profile = adaptation.profile
    assert place.stat().st_mode & 0o077 == 0 and profile.directory.stat().st_mode & 0o077 == 0
    assert all(p.stat().st_mode & 0o077 == 0 for p in profile.directory.rglob("*") if p.is_file())
    assert len(list(profile.answers.iterdir())) == 12 + 1  # the memory, and one pending answer
    assert len(list(read_traces(profile.answers))) == 13
    assert not [p for p in place.rglob("*.tmp")]


def test_a_checkpoint_that_cannot_be_gone_on_from_is_refused_in_a_sentence(
    weights: LanguageModel, place: Path
) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 5)
    adaptation.write()
    adaptation.close()
    file = adaptation.profile.checkpoint
    data = file.read_bytes()
    state = {name: each[..., :1] for name, each in learner(weights).state().items()}
    with pytest.raises(SettingError, match="begun with"):
        learner(weights).restore(state)
    other = Adaptation(place, learner, replace(SMALL, interval=3))
    with pytest.raises(SettingError, match="was learned with interval 4 and not 3; go on with the same"):
        other.begin(weights)
    other.close()
    for spoiled in (
        data[:100],
        b"",
        data.replace(b'"falls', b'"fells'),
        data.replace(b"adaptation", b"adaptatiom"),
    ):
        file.write_bytes(spoiled)
        with pytest.raises(SettingError, match=r"cannot go on from it; .* to start over"):
            Adaptation(place, learner)
    file.write_bytes(data)
    (place / CURVE).write_text("")
    with pytest.raises(SettingError, match="0 lines of 5"):
        Adaptation(place, learner)


def test_a_checkpoint_whose_parts_are_damaged_is_named(weights: LanguageModel, place: Path) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 5)
    adaptation.write()
    adaptation.close()
    profile = adaptation.profile
    checkpoint = profile.read(pair_of_weights(weights))
    assert checkpoint is not None
    guards = [{**checkpoint.progress.guard, "current": [[3, 0]]}, {}]
    for spoiled in (
        *(replace(checkpoint, progress=replace(checkpoint.progress, guard=guard)) for guard in guards),
        replace(checkpoint, cache=checkpoint.cache[:-9]),
        replace(checkpoint, cache=b""),
    ):
        profile.write(spoiled)
        sentence = f"^{re.escape(str(profile.checkpoint))} cannot be read .*; delete .* to start over$"
        again = Adaptation(place, learner, SMALL, prompts="the same")
        with pytest.raises(SettingError, match=sentence):
            again.begin(weights)
        again.close()


def test_lines_are_json(weights: LanguageModel, place: Path) -> None:
    adaptation = begin(place, weights)
    answers(adaptation, 4)
    adaptation.close()
    lines = [json.loads(line) for line in (place / CURVE).read_text().splitlines()]
    assert [line["answer"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line["tokens_per_target_pass"] == pytest.approx(line["tokens"] / line["passes"])
        assert 0 <= line["acceptance"] <= 1 and line["speed_up"] > 0 and line["event"] != "rolled back"
    with open(place / CURVE, "ab") as file:
        os.write(file.fileno(), b'{"answer": 5, "pro')  # a write that was cut
    assert len(read_curve(place / CURVE)) == 4
