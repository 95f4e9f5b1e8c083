"""Runner of `generate`: the real loop on tiny graphs in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.vectors import ROOT, Vector, cache_of
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.models.ort_model import OrtModel
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from support.configs import config_of

CONTEXT = 64  # positions of the graphs
_models: dict[str, OrtModel] = {}


class CountingSource(SplitMix64):
    """The runtime's own random source, which counts the uniforms that it takes."""

    taken = 0

    def uniform(self) -> float:
        self.taken += 1
        return super().uniform()


def run_generate(vector: Vector) -> None:
    given = vector["input"]
    cache = cache_of(given)
    target = _model(given["target"], cache.map.target_size, given["max_length"])
    drafter = _model(given["drafter"], cache.map.draft_size, given["max_length"])
    drafter.rewind(0)
    sampling = SamplingConfig(**{"temperature": 0.0, **given["sampling"]})
    rows = vector["expect"]["rounds"]
    settings = {"verification": given["verification"], "logprobs": "logprobs" in rows[0]}
    config = config_of(given["mode"], sampling, given["max_new_tokens"], **settings)
    length = FixedLength(0 if given["mode"] == "plain" else given["num_draft_tokens"])
    models = DecoderModels(target, Drafter(drafter, given["draft_start"]), cache)
    random = CountingSource(int(given["seed"], 16))
    rounds: list[dict[str, Any]] = []
    prompts = given["prompt"], given["draft_prompt"]
    for each in decode_prompt(models, *prompts, config, length, random, given["eos_ids"]):
        rounds.append({name: _plain(getattr(each, name)) for name in rows[0]})
    assert [t for each in rounds for t in each["emitted"]] == vector["expect"]["tokens"]
    logprobs, expected = ([row.pop("logprobs", []) for row in each] for each in (rounds, rows))
    assert rounds == rows
    assert [len(each) for each in logprobs] == [len(each) for each in expected]
    for actual, row in zip(logprobs, expected, strict=True):
        assert np.allclose(actual, row, rtol=0, atol=1e-6)  # logits are float32
    assert random.taken == vector["expect"]["uniforms"]


def _model(file: str, vocab_size: int, max_length: int) -> OrtModel:
    if file not in _models:
        _models[file] = OrtModel(ROOT / "generate" / file, KvShape(1, 1, 1, CONTEXT), vocab_size)
    model = _models[file]
    model.max_length = max_length
    return model


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
