"""Vectors of `adapter/fit`: the model of a bundle that an adapter belongs to, and what its graph is fed."""

from typing import Any

from vectorlib.cases.files.adapter import BASE, DRAFT, ONE, QKV, TARGET, Matrix
from vectorlib.writer import VectorWriter, vector

Model = dict[str, Any]
O = {"layers.0.o": {"inputs": 2, "parts": [["o", 1]]}}  # noqa: E741 # the name of the site
PACKED = {"layers.0.qkv": {"inputs": 3, "parts": [["q", 2], ["k", 1], ["v", 1]]}}
OTHER = "c" * 64
BARE: Model = {"fingerprint": OTHER, "lora": None}


def model(sites: dict[str, Any], rank: int | None = None) -> Model:
    """A model with the adapter's own weights."""
    return {"fingerprint": BASE, "lora": {"rank": rank, "sites": sites}}


def write(writer: VectorWriter) -> None:
    writer.vectors("adapter/fit", "fits", [*_fitting(), *_refused()])


def _given(file: str, drafter: Model, target: Model = BARE, **others: Any) -> dict[str, Any]:
    prints = {"draft_tokenizer": DRAFT, "target_tokenizer": TARGET, "role": None}
    return {"file": f"../valid/{file}.safetensors", "drafter": drafter, "target": target, **prints, **others}


def _fitting() -> list[dict[str, Any]]:
    zeros = [[0.0] * 4 for _ in range(2)]
    wide = {  # of rank 2 for each of three parts: A has 6 columns
        "layers.0.qkv.lora_a": [[*row, 0.0, 0.0, 0.0, 0.0] for row in QKV["layers.0.qkv.lora_a"]],
        "layers.0.qkv.lora_b": [*QKV["layers.0.qkv.lora_b"], *zeros, *zeros],
    }
    untouched = {"layers.1.o.lora_a": [[0.0], [0.0]], "layers.1.o.lora_b": [[0.0]]}
    cases: list[tuple[str, str, dict[str, Any], str, dict[str, Matrix]]] = [
        ("any_rank", "a graph of any rank gets the tensors as they are", _given("example", model(O)),
         "drafter", ONE),
        ("target", "the target's weights", _given("example", BARE, model(O)), "target", ONE),
        ("both", "both models have these weights: the drafter", _given("example", model(O), model(O)),
         "drafter", ONE),
        ("both_target", "both models have these weights: the one that was asked for",
         _given("example", model(O), model(O), role="target"), "target", ONE),
        ("fixed_rank", "a graph of rank 2 for each of three parts: filled up with zeros",
         _given("packed", model(PACKED, 2)), "drafter", wide),
        ("fixed_rank_equal", "the rank of the graph", _given("example", model(O, 1)), "drafter", ONE),
        ("fixed_rank_other_site", "a site that the adapter does not change gets zeros",
         _given("example", model(O | {"layers.1.o": O["layers.0.o"]}, 1)), "drafter", ONE | untouched),
        ("any_rank_other_site", "a site that the adapter does not change is not fed",
         _given("example", model(O | {"layers.1.o": O["layers.0.o"]})), "drafter", ONE),
    ]  # fmt: skip
    return [
        vector(name, why, given, {"model": role, "tensors": fed}) for name, why, given, role, fed in cases
    ]


def _refused() -> list[dict[str, Any]]:
    fits = model(O)
    no_sites: Model = {**BARE, "fingerprint": BASE}
    cases: list[tuple[str, str, str, dict[str, Any]]] = [
        ("foreign_drafter", "made for another drafter's tokenizer", "foreign_vocabulary",
         _given("example", fits, draft_tokenizer=OTHER)),
        ("foreign_target", "made for another target's tokenizer", "foreign_vocabulary",
         _given("example", fits, target_tokenizer=OTHER)),
        ("foreign_and_base", "the first fault is named", "foreign_vocabulary",
         _given("example", BARE, draft_tokenizer=OTHER)),
        ("wrong_base", "neither model has these weights", "wrong_base", _given("example", BARE)),
        ("base_unknown", "a manifest that does not name the weights", "wrong_base",
         _given("example", {**fits, "fingerprint": None})),
        ("base_of_other_role", "asked for the drafter, and only the target has these weights", "wrong_base",
         _given("example", BARE, fits, role="drafter")),
        ("no_sites", "the graph takes no adapters", "no_sites", _given("example", no_sites)),
        ("site_absent", "a site that the graph does not have", "extra_tensor",
         _given("example", model(PACKED))),
        ("input_width", "the graph's site reads 3 values", "shape",
         _given("example", model({"layers.0.o": {"inputs": 3, "parts": [["o", 1]]}}))),
        ("output_width", "the graph's site writes 2 values", "shape",
         _given("example", model({"layers.0.o": {"inputs": 2, "parts": [["o", 2]]}}))),
        ("parts_width", "parts of 2, 1 and 2 values", "shape",
         _given("packed", model({"layers.0.qkv": {"inputs": 3, "parts": [["q", 2], ["k", 1], ["v", 2]]}}))),
        ("rank_above", "rank 2 for a graph of one part of rank 1", "rank", _given("packed", model(
            {"layers.0.qkv": {"inputs": 3, "parts": [["q", 4]]}}, 1))),
    ]  # fmt: skip
    return [vector(name, why, given, {"fault": fault}) for name, why, fault, given in cases]
