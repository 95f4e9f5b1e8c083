"""Runners of `learner/vector` and `learner/average`: the trained vector, its adapter, means."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.vectors import Vector
from omnidraft.learning.step.step_tensors import initial_vector, sites_of, vector_of
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.train_step_entry import layout_of
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.sync.average import average

FINGERPRINTS = "a" * 64, "d" * 64, "e" * 64  # base, draft tokenizer, target tokenizer
CREATED = "2026-01-02T03:04:05Z"


def run_vector(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    sites = {
        name: Site(site["inputs"], tuple((part, width) for part, width in site["parts"]))
        for name, site in given["sites"].items()
    }
    lora, scale = LoraSites(None, sites), given["alpha"] / given["rank"]
    layout = layout_of(lora, given["rank"])
    assert [{"name": n, "shape": list(s)} for n, s in layout.tensors.items()] == expect["tensors"]
    assert np.allclose(initial_vector(layout, int(given["seed"], 16)), expect["vector"], rtol=1e-7, atol=0)
    full = np.array(given["full"], np.float32)
    tensors = sites_of(full, layout, lora, scale)
    for name, expected in expect["adapter"].items():
        for tensor, half in zip(tensors[name], ("lora_a", "lora_b"), strict=True):
            assert np.allclose(tensor, expected[half], rtol=1e-6), f"{name}.{half}"
    again = vector_of(Adapter(*FINGERPRINTS, tensors, CREATED), layout, lora, scale)
    assert np.allclose(again, full, rtol=1e-6)


def run_average(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    adapters = [_adapter(device) for device in given["devices"]]
    mean = average(adapters, [device["accepted"] for device in given["devices"]], CREATED, given["rank"])
    assert mean.adapter.tensors.keys() == expect["products"].keys()
    for site, expected in expect["products"].items():
        a, b = mean.adapter.tensors[site]
        assert np.allclose(a @ b, expected, rtol=1e-5, atol=1e-6), site
        assert given["rank"] is None or a.shape[1] <= given["rank"]
    assert abs(mean.lost - expect["lost"]) < 1e-6


def _adapter(device: dict[str, Any]) -> Adapter:
    tensors = {
        site: (np.array(pair["lora_a"], np.float32), np.array(pair["lora_b"], np.float32))
        for site, pair in device["tensors"].items()
    }
    return Adapter(*FINGERPRINTS, tensors, CREATED)
