"""Adapters as values and as files: what is written is read, and every fault has its name and sentence."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from safetensors.numpy import load, save

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.models.adapter import Adapter, no_adapter
from omnidraft.runtime.models.adapter_file import (
    decode_adapter,
    encode_adapter,
    encode_for_onnxruntime,
    metadata_of,
    read_adapter,
    write_adapter,
)
from support.adapters import BASE, CREATED, DRAFT, OPEN, SITES, TARGET, adapter

Header = dict[str, Any]


def test_a_file_holds_the_adapter_and_is_safetensors(tmp_path: Path) -> None:
    learned = adapter()
    path, beside = write_adapter(tmp_path / "a.safetensors", learned)
    again = read_adapter(path)
    assert (again.base, again.created, again.digest) == (BASE, CREATED, learned.digest)
    assert again.rank == 2 and again.tensors.keys() == SITES.keys()
    assert encode_adapter(again) == path.read_bytes() == encode_adapter(adapter())
    for site, (a, b) in learned.tensors.items():
        stored = load(path.read_bytes())
        assert np.array_equal(stored[f"{site}.lora_a"], a) and np.array_equal(stored[f"{site}.lora_b"], b)
    kept = ort.AdapterFormat.read_adapter(str(beside))  # owns what its parameters look at
    parameters = kept.get_parameters()
    assert {n: v.numpy().tolist() for n, v in parameters.items()} == {
        n: t.tolist() for n, t in learned.inputs(OPEN).items()
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx_adapter", "a.safetensors"]


def test_safetensors_own_files_are_read() -> None:
    """The order of the metadata does not matter, nor who wrote it."""
    learned = adapter()
    assert decode_adapter(save(learned.inputs(OPEN), metadata=metadata_of(learned))).digest == learned.digest


def test_the_digest_is_of_what_an_adapter_does() -> None:
    learned = adapter()
    assert learned.digest == replace(learned, created="2026-02-02T00:00:00Z").digest
    assert learned.digest != adapter(seed=1).digest
    assert learned.digest != replace(learned, base="b" * 64).digest


def test_places_may_differ_in_rank() -> None:
    learned = replace(adapter(), tensors={"layers.0.o": adapter(5).tensors["layers.0.o"]})
    mixed = replace(learned, tensors={**adapter(1).tensors, **learned.tensors})
    assert decode_adapter(encode_adapter(mixed)).rank == 5


def test_a_fixed_rank_is_filled_up() -> None:
    fixed = LoraSites(4, SITES)
    fed = replace(adapter(), tensors={"layers.0.o": adapter().tensors["layers.0.o"]}).inputs(fixed)
    a, b = adapter().tensors["layers.0.o"]
    assert {n: t.shape for n, t in fed.items()} == {n: t.shape for n, t in no_adapter(fixed).items()}
    assert fed["layers.0.o.lora_a"].shape == (2, 4) and fed["layers.0.o.lora_b"].shape == (4, 3)
    assert np.array_equal(fed["layers.0.o.lora_a"] @ fed["layers.0.o.lora_b"], a @ b)
    assert not fed["layers.0.qkv.lora_a"].any() and not fed["layers.0.qkv.lora_b"].any()
    assert no_adapter(OPEN) == {}


@pytest.mark.parametrize(
    ("sites", "fault", "words"),
    [
        (LoraSites(None, {"layers.0.o": SITES["layers.0.o"]}), "extra_tensor", "has no site layers.0.qkv"),
        (
            LoraSites(None, {**SITES, "layers.0.o": Site(2, (("o", 4),))}),
            "shape",
            "layers.0.o goes from 2 to 3 values and the model's from 2 to 4",
        ),
        (LoraSites(1, SITES), "rank", "has rank 2 and the model's graph takes 1 at most"),
    ],
)
def test_a_graph_that_it_does_not_fit(sites: LoraSites, fault: str, words: str) -> None:
    with pytest.raises(AdapterError, match=words) as caught:
        adapter().check_fits(sites)
    assert caught.value.fault == fault


def header_of(data: bytes) -> tuple[Header, bytes]:
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def file_of(header: Header, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def changed(change: Callable[[Header], object]) -> Callable[[bytes], bytes]:
    """A file whose header was changed."""

    def spoil(data: bytes) -> bytes:
        header, rest = header_of(data)
        change(header)
        return file_of(header, rest)

    return spoil


def metadata(**fields: object) -> Callable[[bytes], bytes]:
    return changed(lambda header: header["__metadata__"].update(fields))


def tensors(**changes: np.ndarray | None) -> Callable[[bytes], bytes]:
    """A file with other tensors, as safetensors itself writes it."""

    def spoil(data: bytes) -> bytes:
        arrays: dict[str, np.ndarray] = load(data)
        for key, value in changes.items():
            name = key.replace("__", ".")
            if value is None:
                del arrays[name]
            else:
                arrays[name] = value
        return save(arrays, metadata=header_of(data)[0]["__metadata__"])

    return spoil


O_A, O_B = "layers__0__o__lora_a", "layers__0__o__lora_b"
NAN = np.array([[0, np.nan], [0, 0]], np.float32)
SPOILED: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("truncated", lambda data: b"", "it has 0 bytes"),
    ("truncated", lambda data: data[:7], "it has 7 bytes"),
    ("truncated", lambda data: data[:100], "it has 100 bytes of a header of"),
    ("truncated", lambda data: data[:-1], "bytes of"),
    ("trailing_bytes", lambda data: data + b"\0\0", "it has 2 bytes too many"),
    ("not_an_adapter", lambda data: b"\x08\x07\x06\x05\x04\x03\x02\x01PNG", "not a safetensors file"),
    ("not_an_adapter", lambda data: struct.pack("<Q", 3) + b"{{{", "not a safetensors file"),
    ("not_an_adapter", lambda data: struct.pack("<Q", 1 << 40) + b"{", "not a safetensors file"),
    ("not_an_adapter", changed(lambda h: h.pop("__metadata__")), "does not say that it is"),
    ("not_an_adapter", metadata(format="omnidraft.vocab_map"), "does not say that it is"),
    ("version", metadata(version="2"), "it has version 2 and this omnidraft reads version 1"),
    ("layout", changed(lambda h: h["layers.0.o.lora_a"].pop("data_offsets")), "not laid out as"),
    ("layout", changed(lambda h: h["layers.0.o.lora_a"].update(shape=[2, 3])), "not laid out as"),
    ("dtype", tensors(**{O_A: np.zeros((2, 2), np.float16)}), "'layers.0.o.lora_a' is F16, not F32"),
    ("missing_tensor", tensors(**{O_B: None}), "it has no 'layers.0.o.lora_b'"),
    ("missing_tensor", changed(lambda h: [h.pop(k) for k in list(h) if k[0] != "_"]), ""),
    ("extra_tensor", tensors(layers__0__o__bias=np.zeros(3, np.float32)), "a tensor 'layers.0.o.bias'"),
    ("extra_tensor", tensors(**{f"lm_head__{h}": np.ones((2, 2), np.float32) for h in ("lora_a", "lora_b")}),
     "'lm_head' is not a site of a layer"),
    ("shape", tensors(**{O_A: np.zeros((2, 3), np.float32)}), "has rank 3 in A and 2 in B"),
    ("shape", tensors(**{O_A: np.zeros(2, np.float32)}), "has shape [2], not two sizes above 0"),
    ("shape", tensors(**{O_A: np.zeros((2, 0), np.float32)}), "has shape [2, 0]"),
    ("rank", tensors(**{O_A: np.zeros((2, 1025), np.float32), O_B: np.zeros((1025, 3), np.float32)}),
     "has rank 1025, more than 1024"),
    ("non_finite", tensors(**{O_A: NAN}), "layers.0.o.lora_a holds a value that is not finite"),
    ("metadata", metadata(base="aa"), "its base is 'aa'"),
    ("metadata", changed(lambda h: h["__metadata__"].pop("draft_tokenizer")), "its draft_tokenizer is None"),
    ("metadata", metadata(created="yesterday"), "its created is 'yesterday'"),
    ("metadata", metadata(rank="3"), "its rank is '3' and its tensors give '2'"),
    ("metadata", metadata(alpha="16"), "its alpha is '16' and its tensors give 'folded'"),
    ("metadata", metadata(targets="qkv"), "its targets is 'qkv' and its tensors give 'o,qkv'"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "spoil", "words"), SPOILED)
def test_a_spoiled_file_is_refused_by_name(
    fault: str, spoil: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(spoil(encode_adapter(adapter())))
    if fault == "missing_tensor" and not words:  # no tensors at all, so none of their bytes either
        path.write_bytes(file_of(header_of(path.read_bytes())[0], b""))
    with pytest.raises(AdapterError) as caught:
        read_adapter(path)
    assert caught.value.fault == fault, str(caught.value)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path} is refused: ") and words in sentence and "; " in sentence
    assert "\n" not in sentence


def test_no_mutation_gets_through_as_anything_but_an_adapter() -> None:
    """Random bytes changed, cut and added: a named fault, or an adapter whose fields hold."""
    rng, whole = np.random.default_rng(0), encode_adapter(adapter())
    seen = set()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        if rng.random() < 0.2:
            data = data[: rng.integers(len(data))]
        try:
            decoded = decode_adapter(bytes(data))
            assert decoded.inputs(found_sites(decoded)) and np.isfinite(decoded.digest.encode()[0])
            seen.add("valid")
        except AdapterError as error:
            seen.add(error.fault if str(error) else "no sentence")
    assert seen >= {"valid", "truncated", "not_an_adapter", "layout", "metadata", "version"}
    assert "no sentence" not in seen


def found_sites(found: Adapter) -> LoraSites:
    sites = {n: Site(len(a), (("all", b.shape[1]),)) for n, (a, b) in found.tensors.items()}
    return LoraSites(None, sites)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(AdapterError, match="check the path") as caught:
            read_adapter(path)
        assert caught.value.fault == "unreadable"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "no" / "a.safetensors", "choose another place"),
        (tmp_path / "a.onnx_adapter", "would hold two formats; give a name like a.safetensors"),
    ):
        with pytest.raises(AdapterError, match=words) as caught:
            write_adapter(path, adapter())
        assert caught.value.fault == "unwritable"
    assert not list(tmp_path.iterdir())


def test_onnxruntimes_own_form_has_the_graphs_names() -> None:
    data = encode_for_onnxruntime(adapter())
    assert data[4:8] == b"TORT"  # the identifier of onnxruntime's flatbuffers
    for name in adapter().inputs(OPEN):
        assert name.encode() in data


def test_tokenizers_and_base_are_told_apart() -> None:
    metadata = metadata_of(adapter())
    assert (metadata["base"], metadata["draft_tokenizer"], metadata["target_tokenizer"]) == (
        BASE,
        DRAFT,
        TARGET,
    )


def test_the_example_of_the_specification() -> None:
    tensors = {"layers.0.o": (np.array([[1], [2]], np.float32), np.array([[0.5]], np.float32))}
    data = encode_adapter(Adapter(BASE, DRAFT, TARGET, tensors, CREATED))
    assert (len(data), data[:8].hex(" ")) == (548, "10 02 00 00 00 00 00 00")
    assert data[-12:].hex(" ") == "00 00 80 3f 00 00 00 40 00 00 00 3f"
    assert decode_adapter(data).digest == "3e10e936cdbfe853ab85dad072e680b1a0df6863f4bf449d29bdddb1987b758a"


def test_an_adapter_without_tensors_is_refused() -> None:
    with pytest.raises(AdapterError, match="it has no tensors"):
        replace(adapter(), tensors={})
