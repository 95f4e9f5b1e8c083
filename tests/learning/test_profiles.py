"""The directory of a target: private, whole, of one pair and its settings, with no other files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from omnidraft.errors import SettingError
from omnidraft.learning.online.profiles import AdaptationProgress, LearningCheckpoint, Profile, profiles_in
from omnidraft.learning.step.state_file import Arrays

PAIR = {"target": "a" * 64, "drafter": "b" * 64}
LEARNED: Arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array([4], np.int64)}
GOOD: Arrays = {"w": np.zeros((2, 3), np.float32)}
PROGRESS = AdaptationProgress(
    prompts="c" * 8, position=3, answered=5, version=2, good=1, rate_scale=0.5, memory=[1, 2]
)
CHECKPOINT = LearningCheckpoint(PAIR, PROGRESS, LEARNED, GOOD, b"n-grams", {"interval": 4, "seed": 0})


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    (tmp_path / "place" / "aaaaaaaaaaaa").mkdir(parents=True, mode=0o755)
    made = Profile(tmp_path / "place" / "aaaaaaaaaaaa")
    made.prepare()
    return made


def test_what_is_written_is_read(profile: Profile) -> None:
    assert profile.read(PAIR) is None and profile.progress() is None and profiles_in("nowhere") == []
    profile.write(CHECKPOINT)
    checkpoint = profile.read(PAIR)
    assert checkpoint is not None and profile.progress() == checkpoint.progress == PROGRESS
    assert (checkpoint.pair, checkpoint.cache, checkpoint.settings) == (PAIR, b"n-grams", CHECKPOINT.settings)
    for ours, theirs in ((LEARNED, checkpoint.learner), (GOOD, checkpoint.good)):
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[n], theirs[n]) and ours[n].dtype == theirs[n].dtype for n in ours)
    assert [each.directory for each in profiles_in(profile.directory.parent)] == [profile.directory]
    assert profile.checkpoint.stat().st_mode & 0o077 == 0


def test_a_directory_that_was_there_becomes_its_owners_alone(profile: Profile) -> None:
    assert profile.directory.stat().st_mode & 0o777 == profile.answers.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["bbbbbbbbbbbb", "bbbbbbbbbbbb/answers"])
def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(SettingError, match=r"nothing can be adapted in .*bbbb \(.+\); choose another place"):
        Profile(tmp_path / "bbbbbbbbbbbb").prepare()


def test_answers_that_are_not_kept_go_and_nothing_else(profile: Profile) -> None:
    for number in (1, 2, 9):
        profile.answer(number).write_bytes(b"said")
    (profile.answers / "mine.txt").write_text("mine")
    profile.keep_answers({2, 9, 10})
    left = {file.name for file in profile.answers.iterdir()}
    assert left == {profile.answer(2).name, profile.answer(9).name, "mine.txt"}


def test_another_pair_is_refused_by_name(profile: Profile) -> None:
    profile.write(CHECKPOINT)
    with pytest.raises(SettingError, match="was learned with the drafter bbbbbbbbbbbb and not dddddddddddd"):
        profile.read({**PAIR, "drafter": "d" * 64})
    with pytest.raises(SettingError, match="was learned with the tokenizer None and not eeeeeeeeeeee"):
        profile.read({**PAIR, "tokenizer": "e" * 64})


def test_other_settings_are_named(profile: Profile) -> None:
    assert profile.differing({"interval": 8}) == {}
    profile.write(CHECKPOINT)
    assert profile.differing({"interval": 8, "seed": 0, "later": 1}) == {"interval": 4}


@pytest.mark.parametrize(
    "changes",
    [{"memory": [0]}, {"pending": [1.5]}, {"memory": [True]}, {"position": "3"}, {"falls": 1.0},
     {"guard": []}, {"more": 1}, {"prompts": 5}, {"falls": True}],
)  # fmt: skip
def test_counts_that_cannot_be_are_refused(profile: Profile, changes: dict[str, object]) -> None:
    profile.write(CHECKPOINT)
    with safe_open(profile.checkpoint, framework="np") as file:
        header = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    header["progress"] = json.dumps({**PROGRESS.as_json(), **changes})
    profile.checkpoint.write_bytes(save(tensors, header))
    with pytest.raises(SettingError, match=r"adapting cannot go on from it; delete .* to start over"):
        profile.progress()


def test_a_full_disk_leaves_the_old_checkpoint(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    profile.write(CHECKPOINT)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SettingError, match=r"cannot be written \(No space left on device\); make room"):
        profile.write(replace(CHECKPOINT, cache=b"more"))
    monkeypatch.undo()
    checkpoint = profile.read(PAIR)
    assert checkpoint is not None and checkpoint.cache == b"n-grams"
