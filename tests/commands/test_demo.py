"""The demo: what the starter drafter learned drafts better for both targets, and changes no word."""

from pathlib import Path

import pytest

from omnidraft.commands import demo
from omnidraft.commands.demo import Exported
from omnidraft.commands.terminal import output
from omnidraft.runtime.session.api import load
from omnidraft.sample_prompts import word_problems

UNSEEN = word_problems(26)[18:]  # the demo itself takes the first 18


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def pairs(export_packages: None, place: Path) -> list[Exported]:
    return demo.export_starters(place, lambda *_: None)


@pytest.mark.parametrize("number", range(len(demo.STARTERS)))
def test_learned_drafts_better_and_says_the_same(number: int, pairs: list[Exported]) -> None:
    pair = pairs[number]
    ways = load(pair.untrained), load(pair.learned, cache=pair.cache)
    rounds, emitted = [0, 0], [0, 0]
    for prompt in UNSEEN:
        plain = ways[0].generate(prompt, mode="plain", max_new_tokens=32).finish()
        for i, session in enumerate(ways):
            found = session.generate(prompt, num_draft_tokens=4, max_new_tokens=32).finish()
            assert found.token_ids == plain.token_ids
            rounds[i] += found.statistics.rounds
            emitted[i] += found.statistics.emitted
    assert emitted[1] / rounds[1] > 1.2 * emitted[0] / rounds[0]


def test_what_is_there_is_kept(pairs: list[Exported], place: Path) -> None:
    stages: list[str] = []
    assert demo.export_starters(place, lambda stage, *_: stages.append(stage)) == pairs
    assert not stages
    assert len({bundle for pair in pairs for bundle in (pair.untrained, pair.learned)}) == 4


def test_what_it_shows(pairs: list[Exported], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    shown = [demo.show(pair, lambda *step: seen.append(step), demo.TIMED[:3], 8) for pair in pairs]
    assert seen[-1][0] == seen[-1][1]
    for each in shown:
        assert each.text == each.plain_text
        assert each.ngrams > 50
        for result in (each.untrained, each.learned):
            assert len(result.lines) == 3 and all(line.same_text for line in result.lines)
    demo.draw(shown, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert set(demo.to_json(shown)) == {"starter-a", "starter-b"}
    output.show_demo(shown, demo.PROMPT, tmp_path / "speed.png")
    assert "untrained" in (said := capsys.readouterr().out)
    assert "identical to plain decoding" in said
