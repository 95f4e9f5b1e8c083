"""The demo: what the starter drafter learned fits both targets, drafts better, and changes no word."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnidraft.commands import demo, view
from omnidraft.commands.word_problems import word_problems
from omnidraft.runtime.generate import Session, load_weights
from omnidraft.runtime.learner.profiles import profile_of
from test_starters import starter_bundles  # noqa: F401 # a fixture

UNSEEN = word_problems(30)[18:]  # the demo itself takes the first 18


@pytest.mark.parametrize("name", demo.STARTERS)
def test_learned_drafts_better_and_says_the_same(name: str, starter_bundles: Mapping[str, Path]) -> None:  # noqa: F811
    weights = load_weights(starter_bundles[name])
    profile = profile_of(demo.starter("learned"), weights.bundle)
    ways = Session(weights), Session(weights, adapter=profile.adapter, cache=profile.cache)
    rounds, emitted = [0, 0], [0, 0]
    for prompt in UNSEEN:
        plain = ways[0].generate(prompt, mode="plain", max_new_tokens=40).finish()
        for i, session in enumerate(ways):
            found = session.generate(prompt, num_draft_tokens=4, max_new_tokens=40).finish()
            assert found.token_ids == plain.token_ids
            rounds[i] += found.statistics.rounds
            emitted[i] += found.statistics.emitted
    assert emitted[1] / rounds[1] > 1.25 * emitted[0] / rounds[0]


def test_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole demo but for the length of its answers."""
    stages: list[str] = []
    pairs = demo.export_starters(tmp_path, lambda stage, *_: stages.append(stage))
    assert stages
    made = {
        bundle: (bundle / "manifest.json").read_bytes() for p in pairs for bundle in (p.untrained, p.learned)
    }
    assert len(made) == 4
    stages.clear()
    assert demo.export_starters(tmp_path, lambda stage, *_: stages.append(stage)) == pairs
    assert not stages, "what is there is kept"
    seen: list[tuple[int, int]] = []
    shown = [demo.show(pair, lambda *step: seen.append(step), 8) for pair in pairs]
    assert seen[-1][0] == seen[-1][1]
    for each in shown:
        assert each.text == each.plain_text
        assert len(each.untrained.lines) == len(each.learned.lines) == len(demo.TIMED)
        assert each.ngrams > 50
        assert all(line.same_text for line in (*each.untrained.lines, *each.learned.lines))
    demo.draw(shown, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert set(demo.to_json(shown)) == {"starter-a", "starter-b"}
    view.show_demo(shown, demo.PROMPT, tmp_path / "speed.png")
    assert "untrained" in (said := capsys.readouterr().out)
    assert "identical to plain decoding" in said
