"""The cost of an adapter in a step of the starter drafter: no LoRA sites, empty ones, ranks.

    python -m benchmarks.lora_cost [--json]

Single steps (one token after 64) in fp32, int8 and int4, one thread. The arms take turns in short runs.
Ratios are to the graph without sites: of the fastest runs, which other work on the machine disturbs least,
and of runs of the same turn (median and quartiles over turns). A packed product has the ranks of its parts:
q, k and v of rank 8 are one site of rank 24.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import read_checkpoint
from omnidraft.export.graph.contract import GraphContract
from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites
from omnidraft.export.graph.write import write_graph
from omnidraft.export.quantize.cpu import export_cpu
from omnidraft.export.quantize.quantize import FP32, INT4, INT8, Quantization, quantize
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.ort_model import OrtModel

DRAFTER = Path(__file__).resolve().parents[1] / "examples/starters/drafter"
RANKS = (8, 16)
PAST, STEPS, TURNS = 64, 30, 150


@dataclass(frozen=True)
class Cost:
    """One arm: its fastest step, and its ratios to the graph without sites."""

    quantization: str
    arm: str
    milliseconds: float
    ratio: float
    quartiles: tuple[float, float, float]


def arms(
    place: Path, proto: ModelProto, contract: GraphContract, quantization: Quantization
) -> dict[str, OrtModel]:
    """A model for each arm, each on its own graph."""
    models = {}
    kv = KvShape(contract.num_layers, contract.num_kv_heads, contract.head_dim, contract.max_length)
    for name, rank in (("no sites", None), ("rank 0", 0), *((f"rank {r}", r) for r in RANKS)):
        model = ModelProto()
        model.CopyFrom(proto)
        tensors: dict[str, np.ndarray] = {}
        if rank is not None:
            add_lora_sites(model)
            tensors = lora(lora_sites(model, contract.num_kv_heads * contract.head_dim), rank)
        quantize(model, quantization)
        write_graph(model, place / f"{name}.onnx")
        models[name] = OrtModel(place / f"{name}.onnx", kv, contract.vocab_size)
        models[name].use_adapter(tensors)
    return models


def lora(sites: LoraSites, rank: int) -> dict[str, np.ndarray]:
    """Random tensors of a rank at every part; none for rank 0."""
    rng, tensors = np.random.default_rng(0), {}
    for name, site in sites.sites.items() if rank else ():
        total = rank * len(site.parts)
        tensors[f"{name}.lora_a"] = rng.normal(size=(site.inputs, total)).astype(np.float32)
        tensors[f"{name}.lora_b"] = rng.normal(size=(total, site.outputs)).astype(np.float32)
    return tensors


def steps(model: OrtModel) -> float:
    """Seconds of a step, the mean of one short run."""
    started = time.perf_counter()
    for token in range(STEPS):
        model.rewind(PAST)
        model.score([token + 3])
    return (time.perf_counter() - started) / STEPS


def measure(models: dict[str, OrtModel], quantization: str) -> list[Cost]:
    """Time the arms in turns."""
    for model in models.values():
        model.score(list(range(3, 3 + PAST)), 1)
        steps(model)
    turns = [{name: steps(model) for name, model in models.items()} for _ in range(TURNS)]
    costs = []
    for name in models:
        ratios = [turn[name] / turn["no sites"] for turn in turns]
        low, middle, high = statistics.quantiles(ratios, n=4)
        seconds, plain = (min(turn[arm] for turn in turns) for arm in (name, "no sites"))
        costs.append(Cost(quantization, name, 1000 * seconds, seconds / plain, (low, middle, high)))
    return costs


def table(costs: Sequence[Cost]) -> str:
    rows = [
        f"| {c.quantization} | {c.arm} | {c.milliseconds:.3f} | {c.ratio:.2f} | "
        f"{c.quartiles[1]:.2f} ({c.quartiles[0]:.2f}-{c.quartiles[2]:.2f}) |"
        for c in costs
    ]
    head = ["| weights | arm | ms a step | fastest | turns |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    proto, contract = export_cpu(read_checkpoint(str(DRAFTER)), 256, FP32)
    costs = []
    for quantization in (FP32, INT8, INT4):
        with tempfile.TemporaryDirectory() as name:
            costs += measure(arms(Path(name), proto, contract, quantization), quantization.name)
    sys.stdout.write(json.dumps([asdict(c) for c in costs], indent=2) if options.json else table(costs))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
