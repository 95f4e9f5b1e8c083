"""A bundle's target for onnxruntime-genai: the same nodes and weights behind the inputs that genai gives."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from omnidraft.runtime.bundle.bundle import Bundle, open_bundle

_OURS = ("seqlens_k", "total_sequence_length", "num_logits")  # inputs that genai does not know


def genai_folder(directory: Path, folder: Path, threads: int) -> Path:
    """Write the folder of a bundle's target; one that is there is kept.

    Args:
        directory: a bundle whose graph has one KV buffer for past and present.
        threads: of a pass.
    """
    if folder.exists():
        return folder
    bundle, partial = open_bundle(directory), folder.with_name(f"{folder.name}.partial")
    source = bundle.file(bundle.target.graph)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for each in source.parent.glob(f"{source.name}.*"):
        shutil.copy(each, partial / each.name)
    model = onnx.load(str(source), load_external_data=False)
    _give_inputs(model.graph)
    onnx.save(model, str(partial / source.name))
    (partial / "genai_config.json").write_text(json.dumps(_config(bundle, source.name, threads), indent=1))
    return partial.replace(folder)


def _give_inputs(graph: onnx.GraphProto) -> None:
    """Compute this runtime's inputs from ids and a mask."""
    ids, *buffers = [each for each in graph.input if each.name not in _OURS]
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [1, "total"])
    del graph.input[:]
    graph.input.extend([ids, mask, *buffers])
    for each in (*buffers, *graph.output[1:]):  # genai's buffers are as long as a prompt and its answer
        each.type.tensor_type.shape.dim[2].dim_param = "positions"
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int32), "genai.one"))
    nodes = [
        helper.make_node("Shape", ["attention_mask"], ["genai.total"], start=1, end=2),
        helper.make_node("Cast", ["genai.total"], ["total_sequence_length"], to=TensorProto.INT32),
        helper.make_node("Sub", ["total_sequence_length", "genai.one"], ["seqlens_k"]),
        helper.make_node("Shape", ["input_ids"], ["num_logits"], start=1, end=2),  # it takes all rows
        *graph.node,
    ]
    del graph.node[:]
    graph.node.extend(nodes)


def _config(bundle: Bundle, graph: str, threads: int) -> dict[str, Any]:
    target, kv = bundle.target, bundle.target.kv
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    inputs |= {f"past_{part}_names": f"past_key_values.%d.{part}" for part in ("key", "value")}
    outputs = {f"present_{part}_names": f"present.%d.{part}" for part in ("key", "value")}
    decoder = {
        "session_options": {"intra_op_num_threads": threads, "provider_options": []}, "filename": graph,
        "head_size": kv.head_dim, "hidden_size": kv.head_dim * kv.num_kv_heads,
        "num_attention_heads": kv.num_kv_heads, "num_key_value_heads": kv.num_kv_heads,
        "num_hidden_layers": kv.num_layers, "inputs": inputs, "outputs": {"logits": "logits", **outputs},
    }  # fmt: skip
    model = {
        "bos_token_id": 0, "pad_token_id": 0, "eos_token_id": list(target.eos_ids), "type": "llama",
        "context_length": kv.max_length, "vocab_size": target.vocab_size, "decoder": decoder,
    }  # fmt: skip
    search = {"max_length": kv.max_length, "past_present_share_buffer": True, "do_sample": False}
    return {"model": model, "search": search}
