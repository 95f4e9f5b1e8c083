"""Small random models of every architecture that can be exported, made in seconds and without a download."""

import shutil
from pathlib import Path
from typing import Any

_VOCAB = 320
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": _VOCAB,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
_LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
_TWO_BASES = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
}
_NEOX_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
_GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 24}

# Name -> transformers' model type, and its configuration beside the sizes.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, tied, llama3 scaling": ("llama", {"rope_parameters": _LLAMA3, "tie_word_embeddings": True}),
    "llama, biases, yarn": (
        "llama", {"rope_parameters": _YARN, "attention_bias": True, "mlp_bias": True}
    ),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 32, "tie_word_embeddings": False}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "mistral, window": ("mistral", {"sliding_window": 24, "head_dim": 16, "rope_parameters": _LINEAR}),
    "phi3": ("phi3", {"sliding_window": 256}),
    "granite": (
        "granite", {"logits_scaling": 4.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
    ),
    "olmo2": ("olmo2", {}),
    "gemma2": ("gemma2", {**_GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0}),
    "gemma3": (
        "gemma3_text",
        {**_GEMMA, "rope_parameters": _TWO_BASES, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "gpt-neox": (
        "gpt_neox", {"head_dim": 32, "num_attention_heads": 2, "rope_parameters": _NEOX_ROPE}
    ),
}  # fmt: skip


def save_small_model(name: str, directory: Path) -> Path:
    """Write a random model of `MODELS` with a byte-level tokenizer, and return its directory."""
    import torch
    import transformers

    model_type, extra = MODELS[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **extra})
    model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in model.parameters():  # norms are initialised with ones, which would hide an error
            parameter.add_(torch.randn_like(parameter) * 0.1)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    _save_tokenizer(directory / "tokenizer.json")
    return directory


def _save_tokenizer(file: Path) -> None:
    """Write a tokenizer of bytes, pairs of letters and an end token; every logit has a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in "aeiostnr" for b in "aeiostnr"][: _VOCAB - 1 - len(alphabet)]
    vocab = {token: i for i, token in enumerate(["</s>", *alphabet, *(a + b for a, b in pairs)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["</s>"])
    tokenizer.save(str(file))


def small_checkpoint(tokenizer: Path, vocab_size: int, out: Path, width: int = 64) -> Path:
    """Write a random Llama of 2 layers, so wide, with the tokenizer of another model."""
    import torch
    import transformers

    torch.manual_seed(0)
    heads = {"num_attention_heads": width // 16, "num_key_value_heads": max(1, width // 32)}
    sizes = {**SIZES, **heads, "vocab_size": vocab_size, "tie_word_embeddings": True, "hidden_size": width}
    config = transformers.AutoConfig.for_model("llama", **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(out)
    shutil.copy(tokenizer / "tokenizer.json", out / "tokenizer.json")
    return out
