"""Trained drafters in onnxruntime: the bundle's graph with other weights, or with an adapter.

A step in torch takes ten times as long, and an app would run the runtime's graph.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.experiments.running.pairs import load_pair, torch_model
from omnidraft.checkpoints.peft_adapter import MODULES
from omnidraft.learning.online.profiles import profile_of
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.training.lora import add_lora, load_adapter, lora_modules, to_adapter
from omnidraft.training.merge import add

LEARNED = Path(__file__).resolve().parents[3] / "examples/starters/learned"
_CREATED = "2026-01-01T00:00:00Z"  # an adapter must have a time; no arm reads it


def in_onnxruntime(pair: LoadedBundle, model: PreTrainedModel) -> Drafter:
    """A torch drafter, whole or with LoRA, in the runtime."""
    entry = pair.bundle.drafter
    assert isinstance(pair.drafter, Graph)
    if lora_modules(model):
        assert entry.lora is not None and entry.fingerprint is not None, "the bundle takes adapters"
        drafter = OrtModel.on(pair.drafter)
        tokenizers = pair.vocab_map.draft_fingerprint, pair.vocab_map.target_fingerprint
        adapter = to_adapter(model, entry.lora, entry.fingerprint, tokenizers, _CREATED)
        _, fitted = fit(adapter, pair.bundle, pair.vocab_map, "drafter")
        tensors = dict(fitted.tensors or {})
    else:
        drafter, tensors = OrtModel.on(graph(pair, model)), {}
    drafter.use_adapter(tensors)
    return Drafter(drafter, [] if entry.bos_id is None else [entry.bos_id])


def graph(pair: LoadedBundle, model: PreTrainedModel) -> Graph:
    """The bundle's drafter graph with the weights of a torch drafter without LoRA."""
    state = dict(model.state_dict())
    entry = pair.bundle.drafter
    proto = onnx.load(str(pair.bundle.file(entry.graph)))
    for tensor in proto.graph.initializer:
        values = _values(tensor.name, state)
        if values is not None:
            assert tuple(tensor.dims) == values.shape, (tensor.name, tuple(tensor.dims), values.shape)
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drafter.onnx"
        onnx.save(proto, str(file))
        return Graph(file, entry.kv, entry.vocab_size)


def _values(name: str, state: Mapping[str, Tensor]) -> Any:
    """The values of an initializer of the graph: norms unchanged, products transposed and concatenated."""
    if name in state:
        return state[name].float().cpu().numpy()
    if name == "embedding.weight":
        return state["model.embed_tokens.weight"].float().cpu().numpy()
    parts = name.split(".")
    if parts[0] != "layers" or parts[-1] != "weight":
        return None
    modules = [module for module, (product, _) in MODULES.items() if product == parts[2]]
    keys = [f"model.layers.{parts[1]}.{module}.weight" for module in modules]
    return np.concatenate([state[key].float().cpu().numpy().T for key in keys if key in state], axis=1)


def save(model: PreTrainedModel, file: Path) -> None:
    """Write the trained parameters: those of LoRA, or all."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    save_file({n: p.detach().contiguous() for n, p in trained.items()}, partial)
    partial.replace(file)


def restore(file: Path, lora_rank: int | None, lora_alpha: float) -> PreTrainedModel:
    """The drafter that `save` wrote."""
    model = torch_model("drafter")
    if lora_rank is not None:
        add_lora(model, lora_rank, lora_alpha)
    unexpected = model.load_state_dict(load_file(file), strict=False).unexpected_keys
    assert not unexpected, unexpected
    return model


def begin_with(work: Path, model: nn.Module, target: str, learned: Path = LEARNED) -> None:
    """Give a drafter the adapter of a target in a directory of profiles; without LoRA it is folded in."""
    bundle = load_pair(work, target).bundle
    adapter, lora = read_adapter(profile_of(learned, bundle).adapter), bundle.drafter.lora
    assert lora is not None, "the bundle takes adapters"
    if lora_modules(model):
        load_adapter(model, adapter, lora)
    else:
        add(model, adapter)
