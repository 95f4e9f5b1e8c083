"""A directory that Optimum exported, read and checked before the graph runs; torch is not needed.

Sizes come from the graph. config.json gives what a graph does not hold, and must not contradict the graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import Shape
from omnidraft.checkpoints.refusals import optional_json, special_ids
from omnidraft.errors import CheckpointError, reason
from omnidraft.export.adopt.graph_weights import count_parameters, quantization_of, weight_files
from omnidraft.export.graph.contract import GraphContract, TensorSpec, tensor_specs

_AGAIN = "export it again with `optimum-cli export onnx --task text-generation-with-past --dtype fp32`"
_TEXT_INPUTS = {"input_ids", "attention_mask", "position_ids"}
_KV = re.compile(r"past_key_values\.(\d+)\.(key|value)")
_LIMITS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_WIDTHS = ("hidden_size", "n_embd", "d_model")


@dataclass(frozen=True)
class OptimumDirectory:
    """A graph with concatenating KV, and the files beside it."""

    name: str  # what the user gave
    directory: Path  # holds config.json and tokenizer.json.
    graph: Path  # the file of the graph
    data: tuple[str, ...]  # names of the files beside the graph that hold its weights
    architecture: str  # the class that config.json names.
    shape: Shape  # sizes and special ids
    contract: GraphContract  # inputs and outputs; `max_length` is the model's own limit
    parameters: int  # number of weights


def read_optimum(name: str, graph: Path) -> OptimumDirectory:
    """Read the directory of a graph that `find_graph` returned."""
    directory = graph.parent if (graph.parent / "config.json").is_file() else graph.parent.parent
    for file in ("config.json", "tokenizer.json"):
        if not (directory / file).is_file():
            raise CheckpointError(
                f"{name} has no {file} beside its graph", f"{_AGAIN}, which copies it, or put it there"
            )
    config = optional_json(directory / "config.json", name)
    if config.get("is_encoder_decoder"):
        raise CheckpointError(f"{name} is an encoder-decoder (its config.json says so)", "use a decoder")
    proto = _read(name, graph)
    contract = _contract(name, proto, _max_positions(name, config))
    _check_layers(name, config, contract.num_layers)
    listed = config.get("architectures")
    return OptimumDirectory(
        name=name,
        directory=directory,
        graph=graph,
        data=weight_files(name, graph, proto),
        architecture=str(listed[0])
        if isinstance(listed, list) and listed
        else str(config.get("model_type", "unknown")),
        shape=_shape(config, optional_json(directory / "generation_config.json", name), contract, name),
        contract=contract,
        parameters=count_parameters(proto),
    )


def _read(name: str, graph: Path) -> ModelProto:
    try:
        return onnx.load(str(graph), load_external_data=False)
    except (DecodeError, OSError) as error:
        raise CheckpointError(
            f"{name}: {graph.name} is not a whole ONNX file ({graph.stat().st_size} bytes: {reason(error)})",
            "copy it again",
        ) from error


# Inputs and outputs of the graph


def _contract(name: str, proto: ModelProto, max_length: int) -> GraphContract:
    weights = {tensor.name for tensor in proto.graph.initializer}  # older graphs list them as inputs too
    inputs = tensor_specs(i for i in proto.graph.input if i.name not in weights)
    outputs = tensor_specs(proto.graph.output)
    layers = _check_inputs(name, {spec.name: spec for spec in inputs})
    _check_outputs(name, {spec.name: spec for spec in outputs}, layers)
    shapes = {spec.shape for spec in inputs if _KV.fullmatch(spec.name)}
    heads, head_dim = _heads(name, shapes)
    logits = next(spec for spec in outputs if spec.name == "logits")
    width = logits.shape[-1]
    if len(logits.shape) != 3 or not isinstance(width, int) or width < 1:
        raise CheckpointError(
            f"{name} gives logits of shape {_text(logits.shape)}, not [1, n, vocabulary]", _AGAIN
        )
    return GraphContract(
        inputs=inputs,
        outputs=outputs,
        num_layers=layers,
        num_kv_heads=heads,
        head_dim=head_dim,
        max_length=max_length,
        vocab_size=width,
        quantization=quantization_of(proto),
    )


def _check_inputs(name: str, inputs: Mapping[str, TensorSpec]) -> int:
    """Check that the inputs are those of a decoder with concatenating KV; return the number of layers."""
    layers = {int(match[1]) for n in inputs if (match := _KV.fullmatch(n))}
    if not layers:
        raise CheckpointError(f"{name} takes no past_key_values, so its context cannot be rewound", _AGAIN)
    kv_names = {f"past_key_values.{i}.{part}" for i in range(max(layers) + 1) for part in ("key", "value")}
    if unknown := sorted(set(inputs) - kv_names - _TEXT_INPUTS):
        raise CheckpointError(
            f"{name} takes {unknown[0]}, which a decoder with concatenating keys and values does not take",
            _AGAIN,
        )
    if missing := sorted((kv_names | {"input_ids"}) - set(inputs)):
        raise CheckpointError(f"{name} does not take {missing[0]}", _AGAIN)
    for spec in inputs.values():
        _check_type(name, spec, ("float32",) if spec.name in kv_names else ("int64", "int32"))
    return len(layers)


def _check_outputs(name: str, outputs: Mapping[str, TensorSpec], layers: int) -> None:
    names = ["logits", *(f"present.{i}.{part}" for i in range(layers) for part in ("key", "value"))]
    for output in names:
        if output not in outputs:
            raise CheckpointError(f"{name} does not give {output}", _AGAIN)
        _check_type(name, outputs[output], ("float32",))


def _check_type(name: str, spec: TensorSpec, kinds: Sequence[str]) -> None:
    if spec.dtype not in kinds:
        raise CheckpointError(
            f"{name} has {spec.name} in {spec.dtype} and {' or '.join(kinds)} is needed", _AGAIN
        )


def _heads(name: str, shapes: set[tuple[int | str, ...]]) -> tuple[int, int]:
    """Number of heads and head size, which must be the same in every layer."""
    shape = min(shapes, key=str)
    heads, head_dim = (shape[1], shape[3]) if len(shape) == 4 else (0, 0)
    if len(shapes) > 1 or not isinstance(heads, int) or not isinstance(head_dim, int) or heads * head_dim < 1:
        sizes = " and ".join(sorted(map(_text, shapes)))
        raise CheckpointError(
            f"{name} has keys and values of shape {sizes}, and [1, heads, past, head size] with the same two "
            "numbers in every layer is needed",
            _AGAIN,
        )
    return heads, head_dim


def _text(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


# config.json


def _shape(
    config: Mapping[str, Any], generation: Mapping[str, Any], contract: GraphContract, name: str
) -> Shape:
    def special(key: str) -> Any:
        value = generation.get(key)
        return config.get(key) if value is None else value

    width = contract.vocab_size
    eos, bos = (special_ids(special(f"{role}_token_id"), role, width, name) for role in ("eos", "bos"))
    return Shape(
        vocab_size=width,
        num_layers=contract.num_layers,
        num_kv_heads=contract.num_kv_heads,
        head_dim=contract.head_dim,
        hidden_size=_first(config, _WIDTHS) or contract.num_kv_heads * contract.head_dim,
        max_positions=contract.max_length,
        eos_ids=eos,
        bos_id=bos[0] if bos else None,
        pad_id=special("pad_token_id"),
    )


def _first(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """The value of the first of `keys` that is an integer in config.json."""
    return next((config[key] for key in keys if type(config.get(key)) is int), None)


def _max_positions(name: str, config: Mapping[str, Any]) -> int:
    limit = _first(config, _LIMITS)
    if limit is None:
        raise CheckpointError(
            f"{name}: config.json does not say how many positions the model has",
            'add "max_position_embeddings" to it',
        )
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type")) if isinstance(rope, dict) else None
    if kind == "dynamic":
        raise CheckpointError(
            f"{name} scales its positions by the length of the text (dynamic), so a draft would change the "
            "positions before it",
            "use another checkpoint",
        )
    if kind == "longrope":  # the graph was traced on a short text, so it has only the factors of short texts
        limit = min(limit, _first(config, ("original_max_position_embeddings",)) or limit)
    return limit


def _check_layers(name: str, config: Mapping[str, Any], layers: int) -> None:
    configured = _first(config, _LAYERS)
    if configured is not None and configured != layers:
        raise CheckpointError(
            f"{name}: config.json says {configured} layers and the graph has {layers}",
            "give a directory whose files belong to one model",
        )
