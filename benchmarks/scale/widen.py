"""The same target at the cost of a larger one: a checkpoint with more weights and the same function.

    python -m benchmarks.scale.widen examples/starters/a --to 0.5B -o DIR

A trained target of the size that phones run takes weeks to train, and a random one accepts no draft. So
this tool puts a small trained target inside a large one. What is added is inert: it is computed in each
pass, and it changes no logit.

- The residual stream is wider. Its new channels are 0 in the embeddings, and no layer writes to them. A
  norm takes the mean over all channels, so its weights are multiplied by sqrt(old / new), and its epsilon
  by old / new.
- Each attention has more query heads, and each MLP more channels. Their own weights are random, and their
  columns in the output projection are 0.
- There are more layers. Their weights are random, and both output projections are 0. They keep keys and
  values of their own.

Why timings of it are fair: an engine reads and multiplies every weight, whatever its value; no kernel of
onnxruntime's CPU provider skips zeros. Blocks of 32 weights are quantised alone, and all old sizes are
multiples of 32, so quantised weights keep the function too. What differs from a trained model of that
size: the vocabulary, and with it the share of the head; and the text, which is a small model's.

The function is the same up to the order of sums; with `--check` the command compares the logits of both.
"""

import argparse
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint

_COPIED = ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")


@dataclass(frozen=True)
class Scale:
    """Sizes of a wider model; a width is a multiple of the KV heads' sizes of the model inside it."""

    hidden: int
    layers: int
    mlp: int


# About as many weights in layers as the name says, in the proportions of Qwen2.5's models; the starters' own
# embeddings are 2 to 3 million more.
SCALES = {
    "0.1B": Scale(hidden=768, layers=12, mlp=3072),
    "0.5B": Scale(hidden=1024, layers=24, mlp=5888),
    "1.5B": Scale(hidden=2048, layers=32, mlp=6144),
}


class WidenError(ValueError):
    """A checkpoint that cannot be widened."""


@dataclass(frozen=True)
class Shape:
    """What must be known of the model inside: sizes of its config.json."""

    hidden: int
    layers: int
    mlp: int
    heads: int
    kv_heads: int
    head: int

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Shape":
        if config["model_type"] not in ("llama", "qwen2") or not config["tie_word_embeddings"]:
            raise WidenError(f"{config['model_type']}: only Llama and Qwen2 with tied embeddings are widened")
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        head = config.get("head_dim") or hidden // heads
        return cls(
            hidden,
            config["num_hidden_layers"],
            config["intermediate_size"],
            heads,
            config["num_key_value_heads"],
            head,
        )

    def check(self, to: Scale) -> None:
        """Refuse a scale that does not hold this model, or that shifts the blocks of quantisation."""
        if to.hidden < self.hidden or to.layers < self.layers or to.mlp < self.mlp:
            raise WidenError(f"{to} is smaller than the model inside it")
        if to.hidden % (self.head * self.kv_heads):
            raise WidenError(f"{to.hidden} is no multiple of {self.kv_heads} KV heads of {self.head}")
        if any(size % 32 for size in (self.hidden, self.mlp, self.head, to.hidden, to.mlp)):
            raise WidenError("a size is no multiple of 32, the block that weights are quantised in")


class Widened:
    """The tensors of a wider model, one by one."""

    def __init__(self, old: Shape, to: Scale, seed: int = 0) -> None:
        self._old, self._to = old, to
        self._random = torch.Generator().manual_seed(seed)
        # Each KV head serves more query heads than before: the old ones are the first of their group.
        group, wide = old.heads // old.kv_heads, to.hidden // old.head // old.kv_heads
        self._heads = [kv * wide + query for kv in range(old.kv_heads) for query in range(group)]

    def vector(self, weight: torch.Tensor) -> torch.Tensor:
        """Weights of a norm, float32: [old width] -> [new width]."""
        wide = torch.ones(self._to.hidden)
        wide[: self._old.hidden] = weight.float() * math.sqrt(self._old.hidden / self._to.hidden)
        return wide

    def embeddings(self, weight: torch.Tensor) -> torch.Tensor:
        """[vocabulary, old width] -> [vocabulary, new width]."""
        wide = torch.zeros(weight.shape[0], self._to.hidden, dtype=weight.dtype)
        wide[:, : self._old.hidden] = weight
        return wide

    def inward(self, weight: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
        """A projection from the residual stream, [out, old width] -> [`count`, new width], at `rows`."""
        wide = self._noise(count, self._to.hidden, weight.dtype)
        wide[rows] = 0
        wide[rows, : self._old.hidden] = weight
        return wide

    def outward(self, weight: torch.Tensor, columns: torch.Tensor, count: int) -> torch.Tensor:
        """A projection to the residual stream, [old width, in] -> [new width, `count`], at `columns`."""
        wide = torch.zeros(self._to.hidden, count, dtype=weight.dtype)
        wide[: self._old.hidden, columns] = weight
        return wide

    def bias(self, weight: torch.Tensor, rows: torch.Tensor, count: int) -> torch.Tensor:
        wide = torch.zeros(count, dtype=weight.dtype)
        wide[rows] = weight
        return wide

    def layer(self, tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of a wider layer, by their names in it; `tensors` are those of the old one."""
        old, to = self._old, self._to
        query = torch.cat([torch.arange(old.head) + head * old.head for head in self._heads])
        kv, mlp = torch.arange(old.kv_heads * old.head), torch.arange(old.mlp)
        rows = {"q_proj": (query, to.hidden), "k_proj": (kv, len(kv)), "v_proj": (kv, len(kv))}
        rows |= {"o_proj": (query, to.hidden), "down_proj": (mlp, to.mlp)}
        rows |= {"gate_proj": (mlp, to.mlp), "up_proj": (mlp, to.mlp)}
        for name, tensor in tensors.items():
            part = name.split(".")[-2]
            if part.endswith("layernorm"):
                yield name, self.vector(tensor)
            elif name.endswith("bias"):
                yield name, self.bias(tensor, *rows[part])
            elif part in ("o_proj", "down_proj"):
                yield name, self.outward(tensor, *rows[part])
            else:
                yield name, self.inward(tensor, *rows[part])

    def inert(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """A layer of the old sizes that writes nothing: random, and 0 where it writes."""
        return {name: self._inert(name, tensor) for name, tensor in tensors.items()}

    def _inert(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if "o_proj" in name or "down_proj" in name:
            return torch.zeros_like(tensor)
        if "norm" in name:
            return torch.ones_like(tensor)
        return self._noise(tensor.shape[0], tensor.numel() // tensor.shape[0], tensor.dtype).view_as(tensor)

    def _noise(self, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(rows, columns, generator=self._random).mul_(0.02).to(dtype)


def widen(source: Path, to: Scale, directory: Path, *, seed: int = 0) -> int:
    """Write the wider checkpoint, and return its number of weights.

    Raises:
        WidenError: the model is no Llama or Qwen2 with tied embeddings, or does not fit into the scale.
    """
    config = json.loads((source / "config.json").read_text())
    old = Shape.of(config)
    old.check(to)
    widened, tensors = Widened(old, to, seed), {}
    with safe_open(source / "model.safetensors", "pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
    tensors["model.embed_tokens.weight"] = widened.embeddings(stored["model.embed_tokens.weight"])
    tensors["model.norm.weight"] = widened.vector(stored["model.norm.weight"])
    for number in range(to.layers):
        prefix = f"model.layers.{number if number < old.layers else 0}."
        layer = {name.removeprefix(prefix): each for name, each in stored.items() if name.startswith(prefix)}
        layer = layer if number < old.layers else widened.inert(layer)
        tensors |= {f"model.layers.{number}.{name}": each for name, each in widened.layer(layer)}
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    for name in _COPIED:
        if (source / name).exists():
            shutil.copy(source / name, directory / name)
    (directory / "config.json").write_text(json.dumps(_config(config, old, to), indent=2) + "\n")
    return sum(tensor.numel() for tensor in tensors.values())


def _config(config: dict[str, Any], old: Shape, to: Scale) -> dict[str, Any]:
    wide = config | {
        "hidden_size": to.hidden,
        "num_hidden_layers": to.layers,
        "intermediate_size": to.mlp,
        "num_attention_heads": to.hidden // old.head,
        "head_dim": old.head,
        "rms_norm_eps": config["rms_norm_eps"] * old.hidden / to.hidden,
        "dtype": "float32",  # the norms are; the others are stored as they were
    }
    if "layer_types" in config:
        wide["layer_types"] = ["full_attention"] * to.layers
    return wide


def largest_difference(source: Path, wide: Path, count: int = 64) -> tuple[float, float]:
    """Largest difference of the log-probabilities of both on random ids, and their range."""
    torch.manual_seed(0)
    small, large = (load_model(read_checkpoint(str(each))) for each in (source, wide))
    ids = torch.randint(0, small.config.vocab_size, (1, count))
    with torch.no_grad():
        first, second = (model(input_ids=ids).logits.log_softmax(-1) for model in (small, large))
    return float((first - second).abs().max()), float(first.max() - first.min())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="a checkpoint in a directory")
    parser.add_argument("--to", choices=SCALES, default="0.5B", help="number of weights")
    parser.add_argument("-o", "--out", type=Path, required=True, help="directory of the wider checkpoint")
    parser.add_argument("--check", action="store_true", help="compare the logits of both")
    options = parser.parse_args()
    try:
        count = widen(options.source, SCALES[options.to], options.out)
    except WidenError as error:
        raise SystemExit(f"{options.source} is refused: {error}") from error
    print(f"{options.out}: {count / 1e6:.0f}M weights")
    if options.check:
        difference, spread = largest_difference(options.source, options.out)
        print(f"log-probabilities differ by at most {difference:.1e} (their range: {spread:.0f})")


if __name__ == "__main__":
    main()
