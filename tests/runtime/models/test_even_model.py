"""Passes of even length: the same bits however a text is cut, and so the same greedy text in int4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.runtime.bundle.model_entry import KvShape, KvType
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.models.even_model import EvenModel
from omnidraft.runtime.session.modes import Mode
from support.places import STARTERS
from support.toy import ContextModel

ARMS: tuple[tuple[Mode, int], ...] = (("trie", 1), ("trie", 4), ("direct", 7), ("lookup", 12))


class Recording(ContextModel):
    """Notes the length of each pass and its rows; its logits say so too, where a pass was odd.

    A pass overwrites the rows of the pass before.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(0, 4, max_length=max_length)
        self.widths: list[int] = []
        self.passes_left: int | None = None  # until one is cancelled
        self.returned = np.zeros(0)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> np.ndarray:
        if self.passes_left == 0:
            raise Cancelled
        if self.passes_left is not None:
            self.passes_left -= 1
        self.returned.fill(np.nan)
        rows: np.ndarray = super().score(tokens, num_logits)
        self.widths += [len(tokens), len(rows)]
        self.returned = rows + len(tokens) % 2
        return self.returned


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_pass_is_even_and_says_what_one_token_says(data: st.DataObject) -> None:
    """Appending, rewinding and cancelling in any order, to the very end of the context."""
    size = data.draw(st.sampled_from([4, 6, 20, 140]))
    inner, plain = Recording(size), ContextModel(0, 4, max_length=size)
    model = EvenModel(inner)
    text: list[int] = []
    for _ in range(8):
        if data.draw(st.booleans()) and text:
            text = text[: data.draw(st.integers(0, len(text)))]
            model.rewind(len(text))
        room = size - len(text)
        if not room:
            continue
        count = data.draw(st.integers(1, min(room, 100)))
        tokens = [(i * i) % 4 for i in range(data.draw(st.integers(0, 9)), 200)][:count]
        if data.draw(st.booleans()):
            inner.passes_left = data.draw(st.integers(0, (count - 1) // 64))
            with pytest.raises(Cancelled):
                model.score(tokens)
            inner.passes_left = None
            assert model.length == len(text)
        num_logits = data.draw(st.one_of(st.just(count), st.integers(1, count)))
        logits = model.score(tokens, num_logits)
        text += tokens
        plain.context = text[:-count]
        assert np.array_equal(logits, plain.score(tokens, num_logits))
        assert model.length == len(text) and inner.context == text
    assert all(width % 2 == 0 and width <= 64 for width in inner.widths)


def write_starter(file: Path, form: str, kv: KvShape) -> None:
    """The graph of a starter model, the target of the bundle, in a form and with these keys and values."""
    from omnidraft.checkpoints.checkpoint import read_checkpoint
    from omnidraft.checkpoints.thin_model import thin_model
    from omnidraft.export.graph.passes import half_kv
    from omnidraft.export.graph.skeleton import skeleton
    from omnidraft.export.quantize.quantization import named
    from omnidraft.export.quantize.stream import write_skeleton

    checkpoint = read_checkpoint(str(STARTERS / "a"))
    bare = skeleton(checkpoint, thin_model(checkpoint), kv.max_length)
    if kv.type == "float16":
        half_kv(bare.proto)
    write_skeleton(bare, named(form), file)


@pytest.mark.parametrize("name", ["int4", "int8", "int4-k-quant"])
def test_greedy_text_is_plain_text_in_quantised_weights(bundle: Path, tmp_path: Path, name: str) -> None:
    """All prompts, short and long drafts, copies from the context; and the text split in another way."""
    from omnidraft.runtime.models.ort_model import Graph
    from omnidraft.runtime.session.api import TextSession, load_bundle
    from omnidraft.sample_prompts import PROMPTS

    weights = load_bundle(bundle)
    entry = weights.bundle.target
    write_starter(tmp_path / "model.onnx", name, entry.kv)
    stored = replace(weights, target=Graph(tmp_path / "model.onnx", entry.kv, entry.vocab_size))
    session = TextSession(stored, bitwise=True)

    def said(prompt: str, mode: Mode, count: int) -> list[int]:
        answer = session.generate(
            prompt, max_new_tokens=40, mode=mode, num_draft_tokens=count, ignore_eos=True
        )
        ids: list[int] = answer.finish().token_ids
        return ids

    for prompt in PROMPTS:
        plain = said(prompt, "plain", 0)
        for mode, count in ARMS:
            assert said(prompt, mode, count) == plain, (prompt, mode, count)


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("name", ["fp32", "int4"])
def test_rows_are_the_same_bits_however_a_text_is_cut(
    bundle: Path, tmp_path: Path, name: str, kind: KvType
) -> None:
    from omnidraft.runtime.bundle.bundle import open_bundle
    from omnidraft.runtime.models.ort_model import Graph, OrtModel

    opened = open_bundle(bundle)
    kv = replace(opened.target.kv, type=kind)
    write_starter(tmp_path / "model.onnx", name, kv)
    model = EvenModel(OrtModel(Graph(tmp_path / "model.onnx", kv, opened.target.vocab_size)))
    rng = np.random.default_rng(0)
    ids = [int(i) for i in rng.integers(0, opened.target.vocab_size, model.max_length)]
    whole = np.concatenate([model.score(ids[:64]).copy(), model.score(ids[64:]).copy()])
    for seed in range(6):
        model.rewind(0)
        widths = np.random.default_rng(seed).integers(1, [2, 4, 6, 9, 70, 40][seed], len(ids))
        for width in widths:
            at = model.length
            if at == len(ids):
                break
            assert np.array_equal(model.score(ids[at : at + width]), whole[at : at + width]), (at, width)
