"""Sampling from a Llama checkpoint, many prompts at once: one static cache, whose rows are filled again.

Prompts are read one token a step, like the answers behind them, so every step is the same work: on a GPU it
is one recorded graph. Rows that end get the next prompt, and no row waits for another.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_STEPS = 8  # between two looks at what has ended
_LEAST_RATIO = 4.0  # logits, over the temperature, below the largest: rarer tokens are not drawn


@dataclass
class Request:
    """A prompt, and what the sampler needs to know of it; `row` is the caller's."""

    ids: list[int]
    temperature: float
    new_tokens: int
    row: dict[str, Any] = field(default_factory=dict)


class Sampler:
    """Continues prompts until they end.

    Args:
        model: a transformers Llama with tied embeddings.
        rows: prompts at once.
        length: most tokens of a prompt and its answer.
        end_ids: tokens that end an answer.
        device: where to compute; a GPU uses bf16, a CPU float32.
    """

    def __init__(self, model: Any, *, rows: int, length: int, end_ids: list[int], device: str) -> None:
        config, dtype = model.config, torch.bfloat16 if device == "cuda" else torch.float32
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.size, self.eps = config.hidden_size // self.heads, config.rms_norm_eps
        weights = {name: value.to(device, dtype) for name, value in model.state_dict().items()}
        self.embedding, self.last_norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self.layers = [_layer(weights, f"model.layers.{n}.") for n in range(config.num_hidden_layers)]
        theta = config.rope_parameters["rope_theta"]
        angles = torch.arange(length).float()[:, None] * theta ** (
            -torch.arange(0, self.size, 2).float() / self.size
        )
        self.cos, self.sin = (
            angles.repeat(1, 2).cos().to(device, dtype),
            angles.repeat(1, 2).sin().to(device, dtype),
        )  # [length, size] each
        shape = (len(self.layers), rows, self.kv_heads, length, self.size)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.tokens = torch.zeros(rows, length, dtype=torch.long, device=device)
        self.place = torch.zeros(rows, dtype=torch.long, device=device)  # the token that is read next
        self.prompt = torch.ones(rows, dtype=torch.long, device=device)  # tokens of the prompt
        self.limit = torch.ones(rows, dtype=torch.long, device=device)  # tokens of the prompt and the answer
        self.temperature = torch.ones(rows, device=device)
        self.done = torch.ones(rows, dtype=torch.bool, device=device)
        self.ends = torch.tensor(end_ids, device=device)
        self.every_row = torch.arange(rows, device=device)
        self.attend: Attention = _attend
        if device == "cuda":
            from recipes.drafter.cuda_attention import attend

            self.attend = attend
        self.step = _recorded(self._step) if device == "cuda" else self._step

    @torch.inference_mode()
    def answers(self, requests: Iterator[Request]) -> Iterator[tuple[Request, list[int]]]:
        """Each request with the ids of its answer, its end token included, in the order in which they end.

        The iterator is read while rows are free, so a caller may add to it what an answer asks for.
        """
        held: dict[int, Request] = {}
        ended: list[tuple[Request, list[int]]] = []
        while True:
            self._fill(requests, held)
            if not held:
                yield from ended
                return
            for _ in range(_STEPS):
                self.step()
            yield from ended  # while the device computes
            free = [n for n in self.done.nonzero()[:, 0].tolist() if n in held]
            texts = self.tokens[free].tolist()
            counts = (self.place[free] + 2).tolist()  # a row that ends keeps the place before its last token
            ended = []
            for n, text, count in zip(free, texts, counts, strict=True):
                request = held.pop(n)
                ended.append((request, text[len(request.ids) : count]))

    def _fill(self, requests: Iterator[Request], held: dict[int, Request]) -> None:
        rows, fields, texts = [], [], []
        length = self.tokens.shape[1]
        for n in range(len(self.done)):
            if n not in held:
                request = next(requests, None)
                if request is None:
                    break
                held[n] = request
                rows.append(n)
                texts.append(request.ids + [0] * (length - len(request.ids)))
                fields.append((len(request.ids), min(length, len(request.ids) + request.new_tokens)))
        if rows:
            where = torch.tensor(rows, device=self.done.device)
            self.tokens[where] = torch.tensor(texts, device=where.device)
            counts = torch.tensor(fields, device=where.device)
            self.prompt[where], self.limit[where] = counts[:, 0], counts[:, 1]
            warmth = [held[n].temperature for n in rows]
            self.temperature[where] = torch.tensor(warmth, device=where.device)
            self.place[where] = 0
            self.done[where] = False

    def _step(self) -> None:
        """Read one token of each row; behind the prompt, draw the next one."""
        ids = self.tokens.gather(1, self.place[:, None])[:, 0]
        drawn = self._draw(self._forward(ids))
        after = (self.place + 1).clamp(max=self.tokens.shape[1] - 1)
        read = after < self.prompt
        following = self.tokens.gather(1, after[:, None])[:, 0]
        token = torch.where(read | self.done, following, drawn)
        self.tokens.scatter_(1, after[:, None], token[:, None])
        over = ~read & (torch.isin(token, self.ends) | (after + 1 >= self.limit))
        self.place.copy_(torch.where(self.done | over, self.place, after))
        self.done.logical_or_(over)

    def _forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits [rows, vocabulary] behind the token of each row, float32."""
        rows = len(ids)
        cos, sin = self.cos[self.place][:, None], self.sin[self.place][:, None]  # [rows, 1, size]
        hidden = self.embedding[ids]
        for layer, keys, values in zip(self.layers, self.keys, self.values, strict=True):
            x = rms_norm(hidden, (hidden.shape[-1],), layer["norm1"], self.eps)
            qkv = linear(x, layer["qkv"]).view(rows, -1, self.size)
            q, k, v = torch.split(qkv, [self.heads, self.kv_heads, self.kv_heads], dim=1)
            keys[self.every_row, :, self.place] = _turned(k, cos, sin)
            values[self.every_row, :, self.place] = v
            grouped = _turned(q, cos, sin).view(rows, self.kv_heads, -1, self.size)
            mixed = self.attend(grouped, keys, values, self.place)
            hidden = hidden + linear(mixed.reshape(rows, -1), layer["out"])
            x = rms_norm(hidden, (hidden.shape[-1],), layer["norm2"], self.eps)
            gate, up = linear(x, layer["gate_up"]).chunk(2, dim=-1)
            hidden = hidden + linear(silu(gate) * up, layer["down"])
        last = rms_norm(hidden, (hidden.shape[-1],), self.last_norm, self.eps)
        return linear(last, self.embedding).float()

    def _draw(self, logits: torch.Tensor) -> torch.Tensor:
        """A token of each row: the first of exponential clocks that run at the tokens' probabilities."""
        largest = logits.amax(dim=-1, keepdim=True)
        scaled = (logits - largest) / self.temperature.clamp(min=1e-3)[:, None]
        scaled.masked_fill_(scaled < -_LEAST_RATIO, -torch.inf)
        clocks = torch.empty_like(scaled).exponential_().log_()
        warm = self.temperature[:, None] > 0
        return torch.where(warm, scaled - clocks, scaled).argmax(dim=-1)


def _attend(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor
) -> torch.Tensor:
    """Attention of queries [rows, kv heads, group, size] to places 0 .. place of keys and values.

    Both are [rows, kv heads, length, size].
    """
    seen = torch.arange(keys.shape[2], device=keys.device)[None] <= place[:, None]
    return scaled_dot_product_attention(queries, keys, values, attn_mask=seen[:, None, None])


def _recorded(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph, which is launched at once."""
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        step()
    return graph.replay


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions of x [rows, heads, size]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-high, low], dim=-1) * sin


def _layer(weights: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    def joined(*parts: str) -> torch.Tensor:
        return torch.cat([weights[f"{name}{part}.weight"] for part in parts])

    return {
        "norm1": weights[name + "input_layernorm.weight"],
        "norm2": weights[name + "post_attention_layernorm.weight"],
        "qkv": joined("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "out": joined("self_attn.o_proj"),
        "gate_up": joined("mlp.gate_proj", "mlp.up_proj"),
        "down": joined("mlp.down_proj"),
    }
