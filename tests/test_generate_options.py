"""Sampling settings, log-probabilities and prompt lookup: the API and the command line on a real bundle."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from omnidraft import load
from omnidraft.cli import app
from omnidraft.errors import SettingError

PROMPT = "one two three four one two three four one two three"


def test_lookup_with_a_penalty_is_plain_decoding(bundle: Path) -> None:
    session = load(bundle, threads=1)
    plain, copied = (
        session.generate(PROMPT, max_new_tokens=24, mode=mode, repetition_penalty=1.2, raw=True).finish()
        for mode in ("plain", "lookup")
    )
    assert copied.token_ids == plain.token_ids
    assert copied.statistics.drafted > 0 and plain.statistics.drafted == 0
    assert copied.logprobs == []
    assert len(session.cache) == 0


def test_a_verification_that_is_none_is_refused(bundle: Path) -> None:
    with pytest.raises(SettingError, match='"row" is unknown; use one of token, block'):
        load(bundle).generate("Hi", verification="row")  # type: ignore[arg-type]


def test_the_command_line_has_every_setting(bundle: Path) -> None:
    options = ["-t", "0.9", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.02", "--seed", "3", "-n", "12"]
    more = ["--repetition-penalty", "1.1", "--verification", "block", "--logprobs", "--json"]
    found = CliRunner().invoke(app, ["generate", str(bundle), "Once upon a time", *options, *more])
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    assert len(said["logprobs"]) == len(said["token_ids"]) > 0
    assert all(-20.0 < x <= 0.0 for x in said["logprobs"]) and min(said["logprobs"]) < 0.0
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
    assert again.token_ids == said["token_ids"]
    assert again.logprobs == pytest.approx(said["logprobs"], abs=1e-4)
