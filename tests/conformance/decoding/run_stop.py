"""Runners of `utf8` and `stop`: bytes to text, and where an output ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import pytest

from conformance.vectors import Vector
from omnidraft.errors import SettingError
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.decoding.stop import StopText, Utf8Stream, cut_at_stop
from omnidraft.runtime.session.generation import Generation, Limits
from omnidraft.runtime.session.generation_config import GenerationConfig


def run_stop(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    if "refused" in expect:
        with pytest.raises(SettingError):
            StopText(given["stop"])
        return
    text = StopText(given["stop"])
    config = GenerationConfig(max_new_tokens=given["max_new_tokens"], seed=0)
    # A prompt of one token: the context is full once as many tokens are out as it has positions.
    limits = Limits(given["eos_ids"], given["room"])
    generation = Generation(_rounds(given, text), config, [1], text, limits, lambda _: nullcontext())
    pieces = list(islice(generation, len(expect["emitted"])))
    assert [list(piece.token_ids) for piece in pieces] == expect["emitted"]
    assert [piece.text for piece in pieces] == expect["pieces"]
    ending = {
        "text": generation.text,
        "reason": generation.stop_reason,
        "stop_string": generation.stop_string,
        "stop_start": generation.stop_start,
    }
    assert ending == {name: expect[name] for name in ending}


def _rounds(given: dict[str, Any], text: StopText) -> Iterator[Round]:
    table = {int(token): bytes.fromhex(data) for token, data in given["bytes"].items()}
    for tokens in given["rounds"]:
        emitted, ended = cut_at_stop(tokens, given["eos_ids"], text, table.__getitem__)
        yield Round((), (), 0, tuple(emitted), 0, 0)
        if ended:
            return


def run_utf8(vector: Vector) -> None:
    stream = Utf8Stream()
    pieces = [stream.push(bytes.fromhex(chunk)) for chunk in vector["input"]["chunks"]]
    assert pieces == vector["expect"]["pieces"]
    assert stream.flush() == vector["expect"]["rest"]
