"""`omnidraft demo`: where it finds the starter models, and that learning speeds up and changes no text."""

import shutil
from pathlib import Path

import pytest

from omnidraft.commands import demo, starters
from omnidraft.commands.starters import STARTERS, StarterPair, export_starters, find_starters
from omnidraft.errors import SettingError
from omnidraft.packing.share_drafter import users_of
from omnidraft.runtime.session.api import load
from omnidraft.sample_prompts import word_problems
from support import places
from support.command_line import Run, refused

UNSEEN = word_problems(26)[18:]  # the demo itself takes the first 18


def test_starters_are_found_from_the_working_directory_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    for name in ("drafter", *STARTERS):
        (checkout / "examples/starters" / name).mkdir(parents=True)
        (checkout / "examples/starters" / name / "config.json").touch()
    (checkout / "src/omnidraft").mkdir(parents=True)
    for directory in (checkout, checkout / "src/omnidraft"):
        monkeypatch.chdir(directory)
        assert find_starters() == checkout / "examples/starters"
    (checkout / "examples/starters/b/config.json").unlink()
    assert find_starters() == places.STARTERS, "incomplete, so the package's checkout is taken"


def test_starters_are_found_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_starters() == places.STARTERS
    assert starters.starter("drafter") == places.STARTERS / "drafter"


def test_an_installed_package_has_no_starters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(starters, "__file__", str(tmp_path / "site-packages/omnidraft/commands/starters.py"))
    monkeypatch.chdir(tmp_path)
    refused(run("demo"), "the starter models are not part of the package", f"{tmp_path} is not in a checkout",
            "run this in a checkout, or give its examples/starters with --starters")  # fmt: skip
    refused(
        run("demo", "--starters", tmp_path),
        f"--starters {tmp_path} does not hold the starter models; give the directory examples/starters",
    )
    with pytest.raises(SettingError, match="does not hold the starter models"):
        find_starters(places.STARTERS / "a")
    assert find_starters(places.STARTERS) == places.STARTERS
    assert list(tmp_path.iterdir()) == []


def test_the_package_holds_code_only() -> None:
    package = places.ROOT / "src/omnidraft"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert [path for path in files if path.suffix != ".py"] == [package / "py.typed"]


def test_a_moved_directory_of_starters_serves(tmp_path: Path) -> None:
    moved = shutil.copytree(
        places.STARTERS, tmp_path / "models", ignore=shutil.ignore_patterns("*.safetensors")
    )
    assert find_starters(Path(moved)) == moved


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def pairs(export_packages: None, place: Path) -> list[StarterPair]:
    return export_starters(place, lambda *_: None)


@pytest.mark.parametrize("number", range(len(STARTERS)))
def test_learned_drafts_better_and_says_the_same(number: int, pairs: list[StarterPair]) -> None:
    pair = pairs[number]
    ways = load(pair.untrained), load(pair.learned, cache=pair.cache)
    rounds, emitted = [0, 0], [0, 0]
    for prompt in UNSEEN:
        plain = ways[0].generate(prompt, mode="plain", max_new_tokens=32).finish()
        for i, session in enumerate(ways):
            answer = session.generate(prompt, num_draft_tokens=4, max_new_tokens=32).finish()
            assert answer.token_ids == plain.token_ids
            rounds[i] += answer.statistics.rounds
            emitted[i] += answer.statistics.emitted
    assert emitted[1] / rounds[1] > 1.2 * emitted[0] / rounds[0]


def test_what_is_there_is_kept(pairs: list[StarterPair], place: Path) -> None:
    stages: list[str] = []
    assert export_starters(place, lambda stage, *_: stages.append(stage)) == pairs
    assert not stages
    assert len({bundle for pair in pairs for bundle in (pair.untrained, pair.learned)}) == 4


def test_both_targets_have_one_drafter_on_disk(pairs: list[StarterPair], place: Path) -> None:
    (drafter,) = (place / "drafters").iterdir()
    assert users_of(drafter).bundles == ["starter-a", "starter-b"]
    assert not any((pair.untrained / "drafter").exists() for pair in pairs)
    assert demo.sharing(pairs).startswith("starter-a and starter-b have one drafter on disk")


def test_what_it_shows(pairs: list[StarterPair], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[tuple[int, int]] = []
    results = [demo.show(pair, lambda *step: steps.append(step), demo.TIMED[:3], 8) for pair in pairs]
    assert steps[-1][0] == steps[-1][1]
    for each in results:
        assert each.text == each.plain_text
        assert each.ngrams > 50
        for result in (each.untrained, each.learned):
            assert len(result.lines) == 3 and all(line.same_text for line in result.lines)
    demo.draw(results, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert set(demo.demo_json(results)) == {"starter-a", "starter-b"}
    demo.show_demo(results, tmp_path / "speed.png")
    out = capsys.readouterr().out
    assert "untrained" in out and "identical to plain decoding" in out
