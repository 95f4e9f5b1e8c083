"""Small random models as GGUF files, written as llama.cpp's converter does, and the same models in torch.

The names, the order of rows and the keys are written here a second time, independently of src.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from support.tiny_tokenizers import byte_level, sentencepiece  # noqa: E402

Floats = NDArray[np.float32]
KindOf = Callable[[str], str]  # the type of a matrix by llama.cpp's name
QUANTIZED_BY_PACKAGE = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
# The bytes of a block at which its float16 scales are.
HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82),
    "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,),
    "IQ4_XS": (0,), "IQ3_S": (0,),
}  # fmt: skip
_MODULES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
_POST_NORMS = {  # Gemma and OLMo 2 norm the outputs
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
_ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
MERGES = [(b" ", b"t"), (b"h", b"e"), (b" t", b"he"), (b"i", b"n"), (b"e", b"r"), (b"a", b"n"), (b" ", b"a")]
SIZES = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": None,
}  # fmt: skip
CHAT = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}<s>assistant: "


@dataclass(frozen=True)
class Case:
    """A model of one architecture.

    Attributes:
        architecture: llama.cpp's name.
        model_type: transformers' name.
        settings: of transformers' configuration, besides `SIZES`.
        keys: of the file, besides those of all architectures.
        tensors: of the file, besides the weights.
        tokenizer: tokenizer.json of the model.
        pre: the rule of splitting.
    """

    architecture: str
    model_type: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, list[float]] = field(default_factory=dict)
    tokenizer: Callable[[], dict[str, Any]] = lambda: byte_level(MERGES, controls=["<s>", "</s>"])
    pre: str = "gpt-2"


def _llama_vocabulary() -> dict[str, Any]:
    pairs = [(a.decode().replace(" ", "▁"), b.decode()) for a, b in MERGES]
    return sentencepiece(pairs)


def llama3_factors(theta: float, width: int) -> list[float]:
    """The factors of Llama 3's frequencies, as llama.cpp's converter computes them (factor 8, 1, 4, 32)."""
    factors = []
    for frequency in 1.0 / theta ** (np.arange(0, width, 2) / width):
        wave = 2 * np.pi / frequency
        if wave < 32 / 4.0:
            factors.append(1.0)
        elif wave > 32 / 1.0:
            factors.append(8.0)
        else:
            smooth = (32 / wave - 1.0) / (4.0 - 1.0)
            factors.append(1 / ((1 - smooth) / 8.0 + smooth))
    return factors


LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
SHORT, LONG = ([first + 0.1 * i for i in range(24)] for first in (1.0, 2.0))
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": SHORT, "long_factor": LONG,
    "partial_rotary_factor": 0.75,
}  # fmt: skip
GEMMA3 = {
    "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 10, "num_hidden_layers": 6,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
    },
}  # fmt: skip
GEMMA2 = {
    "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 10, "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 5.0,
}  # fmt: skip
CASES = {
    "llama": Case("llama", "llama", {"tie_word_embeddings": True}),
    "llama3": Case(
        "llama", "llama", {"rope_parameters": LLAMA3},
        tensors={"rope_freqs.weight": llama3_factors(10000.0, 64)}, pre="llama-bpe",
    ),
    "llama-bias": Case("llama", "llama", {"attention_bias": True, "mlp_bias": True}, pre="smollm"),
    "mistral": Case(
        "llama", "mistral", {"sliding_window": 11}, {"attention.sliding_window": 11},
        tokenizer=_llama_vocabulary, pre="default",
    ),
    "qwen2": Case(
        "qwen2", "qwen2", {"tie_word_embeddings": True, "rope_parameters": YARN},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32},
        pre="qwen2",
    ),
    "qwen3": Case(
        "qwen3", "qwen3", {"head_dim": 32}, {"attention.key_length": 32, "attention.value_length": 32}
    ),
    "phi3": Case(
        "phi3", "phi3",
        {"sliding_window": 12, "rope_parameters": LONGROPE, "original_max_position_embeddings": 64},
        {"attention.sliding_window": 12, "rope.dimension_count": 48,
         "rope.scaling.original_context_length": 64},
        {"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG},
        _llama_vocabulary, "default",
    ),
    "granite": Case(
        "granite", "granite",
        {"logits_scaling": 4.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25,
         "embedding_multiplier": 3.0, "tie_word_embeddings": True},
        {"logit_scale": 4.0, "residual_scale": 0.5, "attention.scale": 0.25, "embedding_scale": 3.0},
        pre="refact",
    ),
    "olmo2": Case("olmo2", "olmo2", pre="dbrx"),
    "gemma2": Case(
        "gemma2", "gemma2", GEMMA2,
        {"attention.key_length": 64, "attention.sliding_window": 10, "attn_logit_softcapping": 3.0,
         "final_logit_softcapping": 5.0},
        tokenizer=_llama_vocabulary, pre="default",
    ),
    "gemma3": Case(
        "gemma3", "gemma3_text", GEMMA3,
        {"attention.key_length": 64, "attention.sliding_window": 10, "rope.freq_base": 1000000.0,
         "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
        tokenizer=_llama_vocabulary, pre="default",
    ),
}  # fmt: skip


def random_model(case: Case, seed: int = 0) -> Any:
    """A model with random weights, its norms too, in float32."""
    torch.manual_seed(seed)
    tokens = len(vocabulary(case.tokenizer())[0])
    settings = {**SIZES, "vocab_size": tokens, **case.settings}
    config = transformers.AutoConfig.for_model(case.model_type, **settings)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():  # new norms are all ones and would hide a mistake
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def write_model(path: Path, case: Case, kind_of: KindOf = lambda _: "F32", **changes: Any) -> Any:
    """Write a random model; return it in torch with the values that the file holds.

    Args:
        path: the file.
        case: the model.
        kind_of: the type of each matrix by llama.cpp's name.
        changes: keys with other values than the model's; None leaves a key out.
    """
    model = random_model(case)
    keys = {**keys_of(case, model.config), **tokenizer_keys(case.tokenizer(), case.pre), **changes}
    writer = gguf.GGUFWriter(path, case.architecture)
    for key, value in keys.items():
        if value is not None and key != "general.architecture":
            add(writer, key, value)
    for name, values in case.tensors.items():
        writer.add_tensor(name, np.array(values, np.float32))
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied LM head is not there twice
            tensor = tensor_name(case, name)
            theirs = permuted(case, name, parameter.numpy(), model.config)
            kind = kind_of(tensor) if theirs.ndim == 2 else "F32"
            data = blocks_of(np.ascontiguousarray(theirs), kind)
            writer.add_tensor(tensor, data, raw_dtype=gguf.GGMLQuantizationType[kind])
            held = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind]).astype(np.float32)
            parameter.copy_(torch.from_numpy(permuted(case, name, held, model.config, back=True).copy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def add(writer: Any, key: str, value: Any) -> None:
    """Add a key with the type that llama.cpp gives it."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def keys_of(case: Case, config: Any) -> dict[str, Any]:
    """The keys of the sizes."""
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    keys = {
        "block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps, "rope.freq_base": 10000.0,
    }  # fmt: skip
    if case.architecture in ("llama", "granite"):
        keys["rope.dimension_count"] = width
    return {f"{case.architecture}.{key}": value for key, value in (keys | dict(case.keys)).items()}


def tensor_name(case: Case, name: str) -> str:
    """llama.cpp's name of a weight."""
    module, _, part = name.rpartition(".")
    if module in _ENDS:
        return f"{_ENDS[module]}.{part}"
    match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", module)
    assert match, name
    modules = _MODULES | (_POST_NORMS if case.architecture in ("gemma2", "gemma3", "olmo2") else {})
    return f"blk.{match[1]}.{modules[match[2]]}.{part}"


def permuted(case: Case, name: str, values: Floats, config: Any, back: bool = False) -> Floats:
    """What the converter makes of a weight, or what its result was made from."""
    if case.architecture in ("gemma2", "gemma3") and name.endswith("norm.weight"):
        shifted: Floats = values - np.float32(1) if back else values + np.float32(1)
        return shifted
    module = name.rsplit(".", 2)[-2]
    if case.architecture not in ("llama", "granite") or module not in ("q_proj", "k_proj"):
        return values
    heads = config.num_attention_heads if module == "q_proj" else config.num_key_value_heads
    shape = (heads, 2, len(values) // heads // 2, *values.shape[1:])
    if back:
        shape = (heads, len(values) // heads // 2, 2, *values.shape[1:])
    turned: Floats = values.reshape(shape).swapaxes(1, 2).reshape(values.shape)
    return turned


def blocks_of(values: Floats, kind: str, seed: int = 0) -> NDArray[Any]:
    """A matrix in the type `kind`; types that the package cannot make get random blocks of a like size."""
    if kind == "F32":
        return values
    if kind in QUANTIZED_BY_PACKAGE:
        data: NDArray[Any] = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
        return data
    return random_blocks(values.shape[0], values.shape[1], kind, seed + values.size)


def random_blocks(rows: int, columns: int, kind: str, seed: int = 0) -> NDArray[np.uint8]:
    """Random blocks of a type, of values of about 0.05."""
    size, count = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows * columns // size, count), dtype=np.uint8)
    for at in HALVES[kind]:
        blocks[:, at : at + 2] = np.zeros((len(blocks), 1), np.float16).view(np.uint8)
    scale = (rng.random(len(blocks)) + 0.5).astype(np.float16)
    for at in HALVES[kind]:
        blocks[:, at : at + 2] = scale[:, None].view(np.uint8)
    values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    smaller = (scale * (0.05 / values.std())).astype(np.float16)
    for at in HALVES[kind]:
        blocks[:, at : at + 2] = smaller[:, None].view(np.uint8)
    return blocks.reshape(rows, -1)


def vocabulary(spec: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """The tokens of a tokenizer.json in order, and llama.cpp's type of each."""
    pieces = {place: token for token, place in spec["model"]["vocab"].items()}
    kinds = dict.fromkeys(pieces, 1)
    for place, token in pieces.items():
        if re.fullmatch(r"<0x[0-9A-F]{2}>", token):
            kinds[place] = 6
    for token in spec["added_tokens"]:
        pieces[token["id"]] = token["content"]
        kinds[token["id"]] = 3 if token["special"] else 4
    tokens = [pieces.get(place, f"[PAD{place}]") for place in range(max(pieces) + 1)]
    return tokens, [kinds.get(place, 5) for place in range(len(tokens))]


def tokenizer_keys(spec: Mapping[str, Any], pre: str) -> dict[str, Any]:
    """The keys of a tokenizer."""
    tokens, kinds = vocabulary(spec)
    is_bytes = "ByteLevel" in json.dumps(spec["decoder"])
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in spec["model"]["merges"]]
    keys: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2" if is_bytes else "llama", "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": tokens.index("<s>") if "<s>" in tokens else None,
        "tokenizer.ggml.eos_token_id": tokens.index("</s>") if "</s>" in tokens else None,
        "tokenizer.chat_template": CHAT,
    }  # fmt: skip
    if is_bytes:
        keys["tokenizer.ggml.merges"] = merges
    else:  # a SentencePiece vocabulary has scores by which merges are found: earlier ones are better
        order = {"".join(merge.split(" ")): -1.0 - place for place, merge in enumerate(merges)}
        keys["tokenizer.ggml.scores"] = [float(order.get(token, -1e4)) for token in tokens]
        keys["tokenizer.ggml.unknown_token_id"] = tokens.index("<unk>")
    return keys
