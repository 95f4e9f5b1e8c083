"""GGUF files of every architecture: the same model in torch, and graphs of the codes as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from omnidraft.checkpoints.checkpoint import Checkpoint, load_model, read_checkpoint  # noqa: E402
from omnidraft.checkpoints.fingerprint import fingerprint  # noqa: E402
from omnidraft.checkpoints.gguf.header import read_header  # noqa: E402
from omnidraft.checkpoints.thin_model import logits_of, thin_model, unpacked  # noqa: E402
from omnidraft.errors import CheckpointError  # noqa: E402
from omnidraft.export.graph.skeleton import skeleton  # noqa: E402
from omnidraft.export.quantize import coded  # noqa: E402
from omnidraft.export.quantize.quantization import AS_STORED  # noqa: E402
from omnidraft.export.quantize.stream import write_skeleton  # noqa: E402
from support.exported_graphs import GraphSession  # noqa: E402
from support.gguf_models import CASES, write_model  # noqa: E402

MAX_LENGTH = 64
# Types of the parts of packed products, of the embedding and of the LM head, by llama.cpp's names.
MIXES: dict[str, dict[str, str]] = {
    "Q4_0": {"": "Q4_0", "token_embd": "Q8_0"},
    "Q4_1": {"": "Q4_1"},
    "Q5_0": {"": "Q5_0", "attn_v": "Q8_0", "ffn_down": "Q5_1"},
    "Q8_0": {"": "Q8_0"},
    "Q4_K_M": {"": "Q4_K", "attn_v": "Q6_K", "ffn_down": "Q6_K", "token_embd": "Q6_K", "output": "Q6_K"},
    "Q5_K": {"": "Q5_K", "token_embd": "Q4_K", "ffn_up": "F16", "output": "BF16"},
    "Q2_K": {"": "Q2_K", "attn_k": "Q3_K", "token_embd": "Q2_K", "attn_output": "Q3_K"},
    "IQ4": {"": "IQ4_NL", "attn_q": "IQ4_XS", "token_embd": "F16"},
}


def kind_in(mix: str) -> Any:
    kinds = MIXES[mix]

    def kind_of(tensor: str) -> str:
        return next((kinds[part] for part in kinds if part and part in tensor), kinds[""])

    return kind_of


def tokens(vocab: int, count: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(3, vocab, count)]


def test_codes_are_unpacked_once_as_far_as_there_is_room(tmp_path: Path) -> None:
    """Many passes read float32 values; a tied LM head is unpacked once, and what has no room stays codes."""
    write_model(tmp_path / "model.gguf", CASES["llama"], kind_in("Q4_1"))
    thin = thin_model(read_checkpoint(str(tmp_path / "model.gguf")))
    products = [name for name in thin.stored if name != "model.embed_tokens"]
    sizes = [4 * thin.stored[name].weight.shape[0] * thin.stored[name].weight.shape[1] for name in products]
    ids = tokens(40, 20)
    rows = logits_of(thin, ids)
    for room, held in ((None, len(products)), (sum(sizes) - 1, len(products) - 1), (sizes[0], 1), (0, 0)):
        found = unpacked(thin, room)
        weights = [found.stored[name].weight for name in products]
        floats = [weight for weight in weights if isinstance(weight, torch.Tensor)]
        assert len(floats) == held and found.tied
        assert sum(weight.nbytes for weight in floats) <= (sum(sizes) if room is None else room)
        assert np.array_equal(logits_of(found, ids), rows)


def expected(model: Any, ids: list[int]) -> Any:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


@pytest.mark.parametrize("case", CASES)
def test_every_architecture_is_the_model_that_was_written(case: str, tmp_path: Path) -> None:
    """Positions, windows, caps, norms and the order of rows: torch computes what the original computes."""
    model = write_model(tmp_path / "model.gguf", CASES[case])
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    ids = tokens(checkpoint.shape.vocab_size, 40)
    rows = expected(model, ids)
    assert np.abs(rows).max() > 0.5, "logits of nothing"
    for mine in (logits_of(thin_model(checkpoint), ids), expected(load_model(checkpoint), ids)):
        assert np.abs(mine - rows).max() < 2e-5


@pytest.mark.parametrize("case", ["llama", "llama-bias", "phi3"])
def test_a_file_without_loss_has_the_fingerprint_of_its_checkpoint(case: str, tmp_path: Path) -> None:
    """So adapters that were trained for the checkpoint fit a bundle that was made of the file."""
    model = write_model(tmp_path / "model.gguf", CASES[case])
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(tmp_path / "saved")
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    saved = Checkpoint("saved", tmp_path / "saved", model.config, checkpoint.architecture, checkpoint.shape)
    assert fingerprint(checkpoint) == fingerprint(saved)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("case", ["llama", "llama3", "phi3", "gemma3"])
def test_a_graph_of_codes_is_exact(
    case: str, mix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With activations in float32 the graph computes what torch computes with the file's values."""
    model = write_model(tmp_path / "model.gguf", CASES[case], kind_in(mix))
    monkeypatch.setattr(coded, "INT8_ACTIVATIONS", 0)
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    bare = skeleton(checkpoint, thin_model(checkpoint), MAX_LENGTH)
    write_skeleton(bare, AS_STORED, tmp_path / "model.onnx", external_above=1000)
    ids = tokens(checkpoint.shape.vocab_size, 20)
    rows = expected(model, ids)
    scale = max(1.0, float(np.abs(rows).max()))
    session = GraphSession(tmp_path / "model.onnx")
    assert np.abs(session.run(ids) - rows).max() < 1e-4 * scale
    assert np.abs(session.at(12, ids[12:]) - rows[12:]).max() < 1e-4 * scale  # a block after a rewind


def test_a_token_changes_no_earlier_row(tmp_path: Path) -> None:
    """Sums over blocks and joined products keep rows independent, bit by bit."""
    write_model(tmp_path / "model.gguf", CASES["llama"], kind_in("Q4_K_M"))
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    write_skeleton(
        skeleton(checkpoint, thin_model(checkpoint), MAX_LENGTH), AS_STORED, tmp_path / "model.onnx"
    )
    session, ids = GraphSession(tmp_path / "model.onnx"), tokens(checkpoint.shape.vocab_size, 40)
    session.run(ids)
    for past, count in ((0, 9), (3, 2), (17, 6)):
        rows = session.at(past, ids[past : past + count])
        for place in range(1, count):
            changed = ids[past : past + count]
            changed[place:] = tokens(checkpoint.shape.vocab_size, count - place, seed=2)
            assert np.array_equal(session.at(past, changed)[:place], rows[:place])


def test_codes_are_stored_once_and_as_small_as_the_file_allows(tmp_path: Path) -> None:
    """A tied LM head reads the embedding's codes; 4-bit codes with minima take 6 bits a weight."""
    write_model(tmp_path / "model.gguf", CASES["llama"], kind_in("Q4_1"))
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    thin = thin_model(checkpoint)
    write_skeleton(skeleton(checkpoint, thin, MAX_LENGTH), AS_STORED, tmp_path / "model.onnx")
    weights = sum(held.weight.shape[0] * held.weight.shape[1] for name, held in thin.stored.items())
    head = checkpoint.shape.vocab_size * checkpoint.shape.hidden_size
    assert (tmp_path / "model.onnx").stat().st_size < (weights - head) * 6 / 8 + 60_000


def test_a_type_whose_codes_no_graph_holds_is_rounded_to_8_bits(tmp_path: Path) -> None:
    model = write_model(
        tmp_path / "model.gguf", CASES["llama"], lambda name: "IQ3_S" if "ffn" in name else "Q8_0"
    )
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    bare = skeleton(checkpoint, thin_model(checkpoint), MAX_LENGTH)
    write_skeleton(bare, AS_STORED, tmp_path / "model.onnx")
    ids = tokens(checkpoint.shape.vocab_size, 30)
    rows = expected(model, ids)
    assert np.linalg.norm(GraphSession(tmp_path / "model.onnx").run(ids) - rows) < 0.02 * np.linalg.norm(rows)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "mixture of experts": (
        {"llama.expert_count": 8},
        r"llama model with expert_count 8, which is unknown; use",
    ),
    "caps": ({"llama.attn_logit_softcapping": 50.0}, r"with attn_logit_softcapping 50\.0"),
    "no layers": ({"llama.block_count": 0}, r"states block_count as 0, and it must be a whole number from 1"),
    "many layers": (
        {"llama.block_count": 1 << 23},
        r"states 8388608 layers and holds tensors of 2; download",
    ),
    "wide": (
        {"llama.feed_forward_length": 1 << 23},
        r"blk\.0\.ffn_down\.weight of 256 x 512, and its sizes mean 8",
    ),
    "no heads": (
        {"llama.attention.head_count": None},
        r"does not state attention\.head_count, a whole number",
    ),
    "odd heads": ({"llama.attention.head_count_kv": 3}, r"head_count_kv as 3, and it must be a divisor of 4"),
    "other heads": (
        {"llama.attention.head_count": 8},
        r"attn_output\.weight of 256 x 256, and its sizes mean 512",
    ),
    "half turned": (
        {"llama.rope.dimension_count": 32, "llama.attention.key_length": 64},
        r"dimension_count as 32",
    ),
    "no epsilon": (
        {"llama.attention.layer_norm_rms_epsilon": -1.0},
        r"epsilon as -1\.0, and it must be a positive",
    ),
    "not a number": ({"llama.rope.freq_base": float("nan")}, r"rope\.freq_base as nan"),
    "scaling": (
        {"llama.rope.scaling.type": "magic"},
        r"rope\.scaling\.type as 'magic', and it must be none, lin",
    ),
    "longrope": ({"llama.rope.scaling.type": "longrope"}, r"'longrope', and it must be .* with its factors"),
    "a part": ({"split.count": 3}, r"is one of 3 files of a model; join them with `llama-gguf-split --merge"),
    "an adapter": ({"general.type": "adapter"}, r"a GGUF file of type 'adapter'; give the file of the model"),
    "bos": (
        {"tokenizer.ggml.bos_token_id": 9999},
        r"tokenizer\.ggml\.bos_token_id as 9999, and it must be an id",
    ),
    "two windows": ({"phi3.attention.sliding_window": [1, 2]}, r"sliding_window as array\(\[1, 2\].*a whole"),
    "two caps": ({"gemma3.final_logit_softcapping": [1.0, 2.0]}, r"capping as array.*it must be one value"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_in_one_sentence(wrong: str, tmp_path: Path) -> None:
    changes, sentence = WRONG[wrong]
    architecture = next(iter(changes)).split(".")[0]
    write_model(tmp_path / "model.gguf", CASES.get(architecture, CASES["llama"]), **changes)
    with pytest.raises(CheckpointError, match=sentence):
        thin_model(read_checkpoint(str(tmp_path / "model.gguf")))


@pytest.mark.parametrize(
    ("case", "tensor", "rotated"),
    [("llama3", "rope_freqs.weight", 64), ("phi3", "rope_factors_long.weight", 48)],
)
def test_factors_are_one_for_each_pair_of_rotated_dimensions(
    case: str, tensor: str, rotated: int, tmp_path: Path
) -> None:
    factors = {**CASES[case].tensors, tensor: [1.0] * 3}
    write_model(tmp_path / "model.gguf", replace(CASES[case], tensors=factors))
    with pytest.raises(CheckpointError, match=f"holds 3 factors in {tensor} for {rotated} .*; download"):
        read_checkpoint(str(tmp_path / "model.gguf"))


def test_tensors_that_the_architecture_does_not_have_are_not_dropped_without_a_word(tmp_path: Path) -> None:
    case = replace(CASES["llama"], tensors={"blk.0.attn_q_norm.weight": [1.0] * 64})
    write_model(tmp_path / "model.gguf", case)
    with pytest.raises(
        CheckpointError, match=r"1 weights that a llama model does not have, blk\.0\.attn_q_norm"
    ):
        thin_model(read_checkpoint(str(tmp_path / "model.gguf")))


def test_codes_of_a_vector_are_refused_by_name(tmp_path: Path) -> None:
    """llama.cpp quantises matrices alone; a norm in Q8_0 has no rows of whole blocks."""
    path = tmp_path / "model.gguf"
    write_model(path, CASES["llama"])
    entry = read_header(path, "model").tensors["blk.0.attn_norm.weight"]
    data = bytearray(path.read_bytes())
    at = data.index(entry.name.encode()) + len(entry.name) + 4 + 8  # behind the number of axes, and its size
    assert data[at : at + 4] == bytes(4)  # F32
    data[at] = gguf.GGMLQuantizationType.Q8_0
    path.write_bytes(data)
    with pytest.raises(
        CheckpointError, match=r"stores blk\.0\.attn_norm\.weight, which is no matrix, as Q8_0; convert it"
    ):
        thin_model(read_checkpoint(str(path)))


def test_other_architectures_are_refused_by_name(tmp_path: Path) -> None:
    write_model(tmp_path / "model.gguf", replace(CASES["llama"], architecture="gptneox"))
    with pytest.raises(
        CheckpointError, match=r"architecture 'gptneox', which is not supported; use one of llama, q"
    ):
        read_checkpoint(str(tmp_path / "model.gguf"))


def test_a_directory_with_one_file_is_that_file(tmp_path: Path) -> None:
    write_model(tmp_path / "one.gguf", CASES["llama"])
    (tmp_path / "README.md").write_text("A model.")
    assert read_checkpoint(str(tmp_path)).gguf is not None
    (tmp_path / "two.gguf").write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"holds 2 GGUF files \(one\.gguf, two\.gguf\); give the path of one"
    ):
        read_checkpoint(str(tmp_path))
    with pytest.raises(CheckpointError, match=r"there is no file .*three\.gguf; check the path"):
        read_checkpoint(str(tmp_path / "three.gguf"))


def test_the_directory_of_a_file_is_removed_with_it(tmp_path: Path) -> None:
    write_model(tmp_path / "model.gguf", CASES["llama"])
    checkpoint = read_checkpoint(str(tmp_path / "model.gguf"))
    directory = checkpoint.directory
    assert json.loads((directory / "config.json").read_text())["model_type"] == "llama"
    del checkpoint
    assert not directory.exists()
