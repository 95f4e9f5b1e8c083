"""Random checkpoints of two layers with the tokenizer of another model."""

import shutil
from pathlib import Path


def small_checkpoint(tokenizer: Path, vocab_size: int, out: Path) -> Path:
    """Write a random Llama checkpoint with the given vocabulary size and the tokenizer of a directory."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=128, vocab_size=vocab_size, max_position_embeddings=256, bos_token_id=None,
        eos_token_id=0, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(out)
    shutil.copy(tokenizer / "tokenizer.json", out / "tokenizer.json")
    return out
