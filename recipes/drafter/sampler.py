"""A batch sampler for Llama checkpoints on a CPU with bf16 instructions: packed weights, one static cache.

transformers generates about half as fast here: it repacks each weight at each step and copies the cache.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu
from transformers import AutoModelForCausalLM

Weights = dict[str, torch.Tensor]
Linear = Callable[[torch.Tensor], torch.Tensor]


class Sampler:
    """A Llama that continues many prompts at once, in bf16.

    Args:
        folder: a Hugging Face checkpoint with tied embeddings.
        rows: rows of a batch, for which the weights are packed.
    """

    def __init__(self, folder: str, rows: int) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size, self.eps = config.hidden_size // self.heads, config.rms_norm_eps
        theta = config.rope_parameters["rope_theta"]
        self.frequencies = theta ** (-torch.arange(0, self.size, 2).float() / self.size)  # [size / 2]
        weights: Weights = model.state_dict()
        self.embedding = weights["model.embed_tokens.weight"]
        self.last_norm = weights["model.norm.weight"]
        self.head = _packed(self.embedding, rows)
        self.layers = [_layer(weights, f"model.layers.{n}.", rows) for n in range(config.num_hidden_layers)]

    @torch.inference_mode()
    def continue_prompts(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        temperatures: torch.Tensor,
        new_tokens: int,
        end_ids: Sequence[int],
        generator: torch.Generator,
    ) -> list[list[int]]:
        """Sample until an end token, which is kept, or until `new_tokens`; the last eighth of rows is cut.

        Args:
            prompts: ids, of about the same length, because shorter ones are padded on the left.
            temperatures: one a row, 0 for greedy, [rows].
            new_tokens: most tokens of an answer.
            end_ids: tokens that end an answer.
            generator: source of the uniform numbers.
        """
        longest = max(map(len, prompts))
        pads = torch.tensor([longest - len(prompt) for prompt in prompts])
        ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts])  # [rows, longest]
        shape = (len(prompts), self.kv_heads, longest + new_tokens, self.size)
        caches = [(torch.zeros(shape).bfloat16(), torch.zeros(shape).bfloat16()) for _ in self.layers]
        answers: list[list[int]] = [[] for _ in prompts]
        live = torch.arange(len(prompts))  # the row of the batch that each cache row belongs to
        done = torch.zeros(len(prompts), dtype=torch.bool)
        ends = torch.tensor(end_ids)
        for step in range(new_tokens):
            logits = self._forward(ids, pads, caches, longest + step - 1 if step else 0)
            chosen = _choose(logits, temperatures, generator)
            for row, token, over in zip(live.tolist(), chosen.tolist(), done.tolist(), strict=True):
                if not over:
                    answers[row].append(token)
            done |= torch.isin(chosen, ends)
            left = int((~done).sum())
            if left * 8 <= len(prompts):
                break
            if left * 4 <= 3 * len(live):
                kept = (~done).nonzero()[:, 0]
                filled = longest + step
                caches = [(_kept(k, kept, filled), _kept(v, kept, filled)) for k, v in caches]
                live, done, pads, chosen = live[kept], done[kept], pads[kept], chosen[kept]
                temperatures = temperatures[kept]
            ids = chosen[:, None]
        return answers

    def _forward(
        self,
        ids: torch.Tensor,
        pads: torch.Tensor,
        caches: list[tuple[torch.Tensor, torch.Tensor]],
        start: int,
    ) -> torch.Tensor:
        """Logits behind the last column of ids [rows, columns], which begins at cache column `start`."""
        rows, columns = ids.shape
        end = start + columns
        places = (torch.arange(start, end)[None] - pads[:, None]).clamp(min=0)  # [rows, columns]
        angles = (places[..., None] * self.frequencies)[:, None]  # [rows, 1, columns, size / 2]
        angles = angles.repeat(1, 1, 1, 2)
        turn = angles.cos().bfloat16(), angles.sin().bfloat16()
        seen = torch.arange(end)[None] >= pads[:, None]  # [rows, end]
        mask = seen[:, None, None, :].expand(rows, 1, columns, end)
        if columns > 1:
            mask = mask & torch.ones(columns, columns, dtype=torch.bool).tril()
            mask = mask | torch.eye(columns, dtype=torch.bool)  # a row of padding sees itself
            mask = mask.repeat(1, 1, self.heads // self.kv_heads, 1)
        hidden = self.embedding[ids]
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            x = rms_norm(hidden, (hidden.shape[-1],), layer["norm1"], self.eps)
            qkv = layer["qkv"](x).view(rows, columns, -1, self.size).transpose(1, 2)
            q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
            keys[:, :, start:end], values[:, :, start:end] = _turned(k, *turn), v
            # The queries of a group are rows of one product, so that keys are read once.
            grouped = _turned(q, *turn).reshape(rows, self.kv_heads, -1, self.size)
            seen_keys, seen_values = keys[:, :, :end], values[:, :, :end]
            mixed = scaled_dot_product_attention(grouped, seen_keys, seen_values, attn_mask=mask)
            mixed = mixed.reshape(rows, self.heads, columns, self.size).transpose(1, 2)
            hidden = hidden + layer["out"](mixed.reshape(rows, columns, -1))
            x = rms_norm(hidden, (hidden.shape[-1],), layer["norm2"], self.eps)
            gate, up = layer["gate_up"](x).chunk(2, dim=-1)
            hidden = hidden + layer["down"](silu(gate) * up)
        return self.head(rms_norm(hidden[:, -1], (hidden.shape[-1],), self.last_norm, self.eps)).float()


def _choose(logits: torch.Tensor, temperatures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A token of each row of logits [rows, vocabulary] by the inverse of its distribution function."""
    scaled = logits / temperatures.clamp(min=1e-3)[:, None]
    sums = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
    uniforms = torch.rand(len(logits), 1, generator=generator) * sums[:, -1:]
    drawn = torch.searchsorted(sums, uniforms, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
    return torch.where(temperatures == 0, logits.argmax(dim=-1), drawn)


def _kept(cache: torch.Tensor, rows: torch.Tensor, filled: int) -> torch.Tensor:
    smaller = torch.zeros(len(rows), *cache.shape[1:]).bfloat16()
    smaller[:, :, :filled] = cache[rows, :, :filled]
    return smaller


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions of x [rows, heads, columns, size]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def _layer(weights: Weights, name: str, rows: int) -> dict[str, Any]:
    def packed(*parts: str) -> Linear:
        return _packed(torch.cat([weights[f"{name}{part}.weight"] for part in parts]), rows)

    return {
        "norm1": weights[name + "input_layernorm.weight"],
        "norm2": weights[name + "post_attention_layernorm.weight"],
        "qkv": packed("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "out": packed("self_attn.o_proj"),
        "gate_up": packed("mlp.gate_proj", "mlp.up_proj"),
        "down": packed("mlp.down_proj"),
    }


def _packed(weight: torch.Tensor, rows: int) -> Linear:
    """A product with `weight` [out, in] in oneDNN's own layout."""
    operations: Any = torch.ops.mkldnn
    packed = operations._reorder_linear_weight(weight.contiguous(), rows)
    return lambda x: operations._linear_pointwise(x, packed, None, "none", [], "")
