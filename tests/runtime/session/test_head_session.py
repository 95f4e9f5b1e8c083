"""The adaptive head in sessions: changed with an adapter, an input of the graph, refused if it cannot fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.head import BIAS, Head, HeadShape
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.models.ort_model import OrtModel
from omnidraft.runtime.session.api import LoadedBundle, Session, load_bundle
from support.adapters import adapter_of


@pytest.fixture(scope="module")
def loaded(bundle: Path) -> LoadedBundle:
    return load_bundle(bundle, threads=1)


def head(bias: float, shape: HeadShape) -> Head:
    """A head with the same output for every token."""
    tensors = shape.untrained()
    tensors[BIAS][:] = bias
    return Head(tensors)


def headed(bundle: Bundle, bias: float, *, lora: bool = False) -> Adapter:
    assert bundle.drafter.head is not None
    adapter = replace(adapter_of(bundle, "drafter"), head=head(bias, bundle.drafter.head))
    return adapter if lora else replace(adapter, tensors={})


def drafter_of(session: Session) -> OrtModel:
    model = session.models.drafter.model
    assert isinstance(model, OrtModel)
    return model


@pytest.mark.parametrize("lora", [False, True])
def test_a_head_is_swapped_like_any_adapter(loaded: LoadedBundle, tmp_path: Path, lora: bool) -> None:
    session = Session(loaded)
    path = write_adapter(tmp_path / "a.safetensors", headed(session.bundle, -1.0, lora=lora))[0]
    plain = session.generate("How many legs do 3 cats have?", max_new_tokens=12).finish().token_ids
    for adapter, expected in ((read_adapter(path), 1 / (1 + np.e)), (None, 1.0)):
        session.use_adapter(adapter)
        answer = session.generate(
            "How many legs do 3 cats have?", max_new_tokens=12, num_draft_tokens=3
        ).finish()
        assert answer.token_ids == plain
        assert drafter_of(session).acceptance == pytest.approx(expected, abs=1e-6)


def test_a_head_that_does_not_fit_is_refused(loaded: LoadedBundle) -> None:
    bundle, vocab_map = loaded.bundle, loaded.vocab_map
    shape = bundle.drafter.head
    assert shape is not None
    two_blocks = replace(headed(bundle, 0.0), head=head(0.0, replace(shape, blocks=2)))
    with pytest.raises(
        AdapterError, match="2 blocks of width 160 and the model's graph takes 1 of"
    ) as caught:
        fit(two_blocks, bundle, vocab_map)
    assert caught.value.fault == "shape"
    without = replace(bundle, drafter=replace(bundle.drafter, head=None))
    with pytest.raises(
        AdapterError, match=r"takes no head, and .* nothing else; export it again without --no-h"
    ) as caught:
        fit(headed(bundle, 0.0), without, vocab_map)
    assert caught.value.fault == "no_sites"
    _, fitted = fit(headed(bundle, 0.0, lora=True), without, vocab_map)
    assert fitted.tensors is not None and not any(name.startswith("head.") for name in fitted.tensors)
    _, fitted = fit(
        headed(bundle, 0.0), replace(bundle, drafter=replace(bundle.drafter, lora=None)), vocab_map
    )
    assert fitted.tensors is not None and sorted(fitted.tensors) == [
        "head.bias",
        "head.blocks.0",
        "head.weight",
    ]
