"""Sampling settings, log-probabilities and prompt lookup: the API and the command line on a real bundle."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import omnidraft
from omnidraft import GenerationConfig, TextSession, load
from omnidraft.cli import app
from omnidraft.commands.terminal.generation_summary import summary
from omnidraft.errors import PromptError, SettingError, TraceFileError
from omnidraft.runtime.decoding.rng import fresh_seed
from support.command_line import config
from support.places import ROOT

PROMPT = "one two three four one two three four one two three"


def test_the_command_line_has_every_setting(bundle: Path) -> None:
    options = ["-t", "0.9", "--top-k", "40", "--top-p", "0.95", "--seed", "3", "-n", "12", "--json"]
    more = map(str, config(min_p=0.02, repetition_penalty=1.1, verification="block", logprobs=True))
    result = CliRunner().invoke(app, ["generate", str(bundle), "Once upon a time", *options, *more])
    assert result.exit_code == 0, result.output
    output = json.loads(result.stdout)
    assert len(output["logprobs"]) == len(output["token_ids"]) > 0
    assert all(-20.0 < x <= 0.0 for x in output["logprobs"]) and min(output["logprobs"]) < 0.0
    session = load(bundle)
    again = session.generate(
        "Once upon a time",
        max_new_tokens=12,
        temperature=0.9,
        seed=3,
        top_k=40,
        top_p=0.95,
        min_p=0.02,
        repetition_penalty=1.1,
        verification="block",
        logprobs=True,
    ).finish()
    assert again.token_ids == output["token_ids"]
    assert again.logprobs == pytest.approx(output["logprobs"], abs=1e-4)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"max_new_tokens": "5"}, "max_new_tokens '5' is of type str; give a whole number"),
        ({"max_new_tokens": True}, "type bool"),
        ({"max_new_tokens": 0}, "max_new_tokens 0"),
        ({"seed": 1.5}, "seed 1.5 is of type float"),
        ({"seed": -1}, "seed -1 is outside 0..2\\^64-1"),
        ({"seed": 2**64}, "is outside 0..2\\^64-1"),
        ({"temperature": "hot"}, "temperature 'hot' is of type str; give a number"),
        ({"temperature": float("inf")}, "temperature inf is not a finite number"),
        ({"top_p": None}, "top_p None is of type NoneType"),
        ({"temperature": 10**400}, "temperature has 1,329 bits; give a smaller number"),
        ({"num_draft_tokens": "many"}, "num_draft_tokens 'many' is of type str"),
        ({"logprobs": 1}, "logprobs 1 is of type int; give True or False"),
        ({"stop": 5}, "stop 5 is not a sequence of strings"),
        ({"stop": [5]}, "is not a tuple of strings"),
        ({"mode": ["trie"]}, "is unknown"),
        ({"verification": None}, "use one of token, block, auto"),
    ],
)
def test_a_setting_of_a_wrong_kind_is_refused_in_a_sentence(
    bundle: Path, setting: dict[str, Any], words: str
) -> None:
    session = _session(bundle)
    for ask in (session.generate, session.chat):
        with pytest.raises(SettingError, match=words):
            ask("Hi", **setting)
    assert session.answer is None


@pytest.mark.parametrize("config", [{"max_new_tokens": 3}, None, 5])
def test_what_is_no_config_is_refused_in_a_sentence(bundle: Path, config: Any) -> None:
    session = _session(bundle)
    for ask in (session.generate, session.chat):
        with pytest.raises(SettingError, match=r"the config is a .*; give a GenerationConfig, or its fields"):
            ask("Hi", config)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"verify": "x"}, "verify 'x' is not"),
        ({"measure": ["x"]}, r"measure \['x'\] is not"),
        ({"threads": "2"}, "threads '2' is of type str; give a whole number"),
        ({"threads": 1.5}, "threads 1.5 is of type float"),
        ({"target_on": None}, "target_on None is not a string"),
        ({"trace": "a\0b"}, r"no trace can be recorded in a\\x00b \(embedded null"),
    ],
)
def test_an_option_of_loading_of_a_wrong_kind_is_refused_in_a_sentence(
    bundle: Path, option: dict[str, Any], words: str
) -> None:
    with pytest.raises((SettingError, TraceFileError), match=words):
        load(bundle, **option)


@cache
def _session(bundle: Path) -> TextSession:
    return load(bundle)


@pytest.mark.parametrize("prompt", [None, 5, b"Hi", ["Hi"], [1.5], "", " \n\t", "\ud800"])
def test_a_prompt_of_a_wrong_kind_is_refused_in_a_sentence(bundle: Path, prompt: Any) -> None:
    session = _session(bundle)
    asks: list[Callable[[Any], object]] = [session.generate, session.chat, session.measure]
    for ask in asks:
        with pytest.raises(PromptError, match=r"(the prompt|message 1).*; give "):
            ask(prompt)


def test_a_chat_takes_the_settings_of_a_generation(bundle: Path) -> None:
    session, config = load(bundle), GenerationConfig(max_new_tokens=6, temperature=0.7, seed=1)
    answer = session.chat("Hi", max_new_tokens=6, temperature=0.7, seed=1, stop="\u2603").finish()
    assert answer.config == replace(config, stop=("\u2603",))
    session.reset()
    assert session.chat("Hi", config, seed=2).config == replace(config, seed=2)
    for ask in (session.chat, session.generate):
        with pytest.raises(SettingError, match="warmth is not a setting of a generation; use one of max_new"):
            ask("Hi", warmth=3)


def test_drawn_seeds_are_numbers_in_every_reader_of_json() -> None:
    seeds = {fresh_seed() for _ in range(200)}
    assert len(seeds) == 200 and max(seeds) < 2**53


def test_the_package_shows_what_it_is_for() -> None:
    assert dir(omnidraft) == sorted(omnidraft.__all__)
    assert all(hasattr(omnidraft, name) for name in omnidraft.__all__)


def test_the_python_of_the_readme_and_the_guides_runs(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-bundle").symlink_to(bundle)
    count = 0
    for page in ("README.md", "docs/python.md"):
        names: dict[str, object] = {}  # the blocks of a page follow one another
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL):
            exec(block, names)
            count += 1
    assert count >= 6
    assert (tmp_path / "talk.session").is_file()
    assert len(capsys.readouterr().out) > 100


def test_the_summary_says_where_nothing_was_drafted(bundle: Path) -> None:
    session = load(bundle)
    session.costs = replace(session.costs, draft=1e3, target=(1e-3, 1.0))
    answer = session.generate(PROMPT, max_new_tokens=8, raw=True, ignore_eos=True).finish()
    assert answer.statistics.drafted == 0
    assert "nothing drafted, since it would not pay here (-k 4 drafts nevertheless)" in summary(answer, 0)
    answer = session.generate(
        PROMPT, max_new_tokens=8, num_draft_tokens=4, raw=True, ignore_eos=True
    ).finish()
    assert f"of {answer.statistics.drafted} draft tokens accepted" in summary(answer, 0)
