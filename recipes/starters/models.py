"""The architectures of the starter models, their recipes as values, and the files of a published model."""

import json
import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

CONTEXT = 1024
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class Recipe:
    """All settings of a training; training_log.json records them."""

    steps: int
    tokens_per_step: int
    peak_lr: float
    rate: tuple[tuple[int, float], ...]  # points (step, share of the peak rate), linear between them
    lengths: tuple[tuple[int, int], ...]  # (first step, tokens in a row)
    weight_decay: float
    clip_norm: float
    seed: int
    copies: dict[str, int]  # of each source's documents in one round of the mix

    def sequence_length(self, step: int) -> int:
        """Tokens of a row in a step: few at first; the last rows fill the context, to train all positions."""
        return [length for first, length in self.lengths if first <= step][-1]

    def learning_rate(self, step: int) -> float:
        """The rate of a step, interpolated between two points of `rate`."""
        for (start, low), (end, high) in pairwise(self.rate):
            if step <= end:
                return self.peak_lr * (low + (high - low) * (step - start) / (end - start))
        raise AssertionError("the step is after the last point of the rate")

    def settings(self) -> dict[str, Any]:
        """The recipe as plain JSON values."""
        return asdict(self)


def new_model(name: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """An untrained model of the family that `name` imitates; attention heads are 32 wide in all three."""
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": CONTEXT,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.02,
    }
    if name == "drafter":
        return LlamaForCausalLM(
            LlamaConfig(
                hidden_size=160,
                intermediate_size=432,
                num_hidden_layers=2,
                num_attention_heads=5,
                num_key_value_heads=5,
                **common,
            )
        )
    if name == "a":
        return Qwen2ForCausalLM(
            Qwen2Config(
                hidden_size=256,
                intermediate_size=640,
                num_hidden_layers=6,
                num_attention_heads=8,
                num_key_value_heads=8,
                **common,
            )
        )
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=256,
            intermediate_size=640,
            num_hidden_layers=6,
            num_attention_heads=8,
            num_key_value_heads=2,
            **common,
        )
    )


def publish(folder: Path, model: PreTrainedModel, log: dict[str, Any], card: str) -> None:
    """Write the model's bf16 weights, its log and its card to `folder`, which holds its tokenizer.

    All files are written to a new folder, which then replaces the old one, so a reader never finds an
    incomplete model.
    """
    staging = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    half = type(model)(model.config)
    half.load_state_dict(model.state_dict())
    half.bfloat16()
    half.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=model.config.bos_token_id, eos_token_id=model.config.eos_token_id, do_sample=False
    )
    half.save_pretrained(staging)
    (staging / "model.safetensors").chmod(0o644)  # safetensors writes it readable by its owner only
    for name in TOKENIZER_FILES:
        shutil.copyfile(folder / name, staging / name)
    (staging / "training_log.json").write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (staging / "README.md").write_text(card, "utf-8")
    retired = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    folder.rename(retired)
    staging.rename(folder)
    shutil.rmtree(retired)
