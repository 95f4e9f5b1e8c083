"""onnxruntime-genai on a bundle's graph, and on the graphs of two bundles."""

import importlib
import importlib.util
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.decoders import Answer
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle

INSTALLED = importlib.util.find_spec("onnxruntime_genai") is not None
_OURS = ("seqlens_k", "total_sequence_length", "num_logits")  # inputs that genai does not know


class Genai:
    """Plain decoding, prompt lookup, or drafting by a model of the same vocabulary, of onnxruntime-genai."""

    def __init__(self, folder: Path, **drafting: int) -> None:
        """
        Args:
            folder: from `of_bundle` or `with_drafter`.
            drafting: genai's speculative options, such as ngram_size and max_draft_tokens; none is plain.
        """
        self._genai: Any = importlib.import_module("onnxruntime_genai")
        self._model = self._genai.Model(str(folder))
        self._drafting = drafting

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        """See `benchmarks.peers.decoders.Decoder`."""
        started = time.perf_counter()
        generator = self.start(prompt, temperature, seed, new_tokens)
        tokens, first = list[int](), 0.0
        while len(tokens) < new_tokens and not generator.is_done():
            generator.generate_next_token()
            tokens += [int(token) for token in generator.get_next_tokens()]
            first = first or time.perf_counter()
        ended = time.perf_counter()
        counted = generator.get_speculative_stats()
        # After a refused draft it runs the target once more, on the token that took its place.
        passes = counted["target_forward_passes"] + counted["standard_fallback_steps"] or len(tokens)
        return Answer(tokens, passes, first - started, ended - first)

    def start(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Any:
        """A generator that has read the prompt."""
        options = self._genai.GeneratorParams(self._model)
        options.set_search_options(
            max_length=len(prompt) + new_tokens,
            do_sample=temperature > 0.0,
            temperature=temperature or 1.0,
            top_k=0,
            top_p=1.0,
            random_seed=seed,
        )
        if self._drafting:
            options.set_speculative_options(**self._drafting)
        generator = self._genai.Generator(self._model, options)
        generator.append_tokens(list(prompt))
        return generator


def of_bundle(directory: Path, folder: Path, threads: int) -> Path:
    """A bundle's target graph with the inputs that genai gives: ids and a mask.

    Three nodes compute this runtime's inputs from them. The other nodes and the weights are the bundle's.

    Args:
        directory: a bundle whose graph has one KV buffer for past and present.
        folder: to write.
        threads: of a pass.
    """
    bundle = open_bundle(directory)
    source = bundle.file(bundle.target.graph)
    folder.mkdir(parents=True)
    for each in source.parent.iterdir():
        if each.is_file() and each != source:
            shutil.copy(each, folder / each.name)
    model = onnx.load(str(source), load_external_data=False)
    _give_inputs(model.graph)
    onnx.save(model, str(folder / "model.onnx"))
    (folder / "genai_config.json").write_text(json.dumps(_config(bundle, threads), indent=1))
    return folder


def with_drafter(target: Path, drafter: Path, folder: Path) -> Path:
    """Two graphs as one model that drafts: genai asks both for logits of the same vocabulary.

    Args:
        target, drafter: from `of_bundle`; copied, since genai opens no file elsewhere.
        folder: to write; one that is there is kept.
    """
    if folder.exists():
        return folder
    config, draft = (json.loads((each / "genai_config.json").read_text()) for each in (target, drafter))
    for entry, place in ((config["model"], target), (draft["model"], drafter)):
        shutil.copytree(place, folder / place.name)
        entry["decoder"]["filename"] = f"{place.name}/model.onnx"
    config["model"]["draft"] = draft["model"]["decoder"]
    (folder / "genai_config.json").write_text(json.dumps(config, indent=1))
    return folder


def _give_inputs(graph: onnx.GraphProto) -> None:
    kept = [each for each in graph.input if each.name not in _OURS]
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [1, "total"])
    del graph.input[:]
    graph.input.extend([kept[0], mask, *kept[1:]])
    graph.initializer.append(numpy_helper.from_array(np.array([1], np.int32), "genai.one"))
    nodes = [
        helper.make_node("Shape", ["attention_mask"], ["genai.total"], start=1, end=2),
        helper.make_node("Cast", ["genai.total"], ["total_sequence_length"], to=TensorProto.INT32),
        helper.make_node("Sub", ["total_sequence_length", "genai.one"], ["seqlens_k"]),
        # It takes the logits of all rows that it reads.
        helper.make_node("Shape", ["input_ids"], ["num_logits"], start=1, end=2),
        *graph.node,
    ]
    del graph.node[:]
    graph.node.extend(nodes)


def _config(bundle: Bundle, threads: int) -> dict[str, Any]:
    target, kv = bundle.target, bundle.target.kv
    decoder = {
        "session_options": {"intra_op_num_threads": threads, "provider_options": []},
        "filename": "model.onnx",
        "head_size": kv.head_dim,
        "hidden_size": kv.head_dim * kv.num_kv_heads,
        "num_attention_heads": kv.num_kv_heads,
        "num_key_value_heads": kv.num_kv_heads,
        "num_hidden_layers": kv.num_layers,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    model = {
        "bos_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": list(target.eos_ids),
        "context_length": kv.max_length,
        "type": "llama",
        "vocab_size": target.vocab_size,
        "decoder": decoder,
    }
    search = {"max_length": kv.max_length, "past_present_share_buffer": True, "do_sample": False}
    return {"model": model, "search": search}
