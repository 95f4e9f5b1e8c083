"""Vectors of `learner/vector` and `learner/average`: the trained vector, its adapter, the mean."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from math import fsum
from typing import Any

from vectorlib.reference.learning.trace import single
from vectorlib.reference.random_source import uniforms_of
from vectorlib.writer import VectorWriter, vector

Matrix = list[list[float]]
Case = dict[str, Any]


def write(writer: VectorWriter) -> None:
    writer.vectors("learner/vector", "layouts", list(_vectors()))
    writer.vectors("learner/average", "means", list(_averages()))


SITES = {
    "layers.0.qkv": (3, [("q", 2), ("k", 1), ("v", 1)]),
    "layers.0.o": (2, [("o", 3)]),
    "layers.1.down": (5, [("down", 1)]),
}


def _vectors() -> Iterator[Case]:
    """A new vector; and a vector with no zeros, with the adapter that it stands for."""
    for name, why, rank, seed, alpha in (
        ("seed_0", "rank 2", 2, 0, 32.0),
        ("seed_large", "rank 1, another seed", 1, 2**63 + 5, 1.0),
        ("rank_3", "alpha is the rank: the scale is 1", 3, 7, 3.0),
    ):
        layout = [
            (f"{site}.{part}.lora_{half}", [rows, rank] if half == "a" else [rank, width])
            for site, (rows, parts) in SITES.items() for part, width in parts for half in "ab"
        ]  # fmt: skip
        drawn, flat = uniforms_of(seed), list[float]()
        for each, (rows, columns) in layout:
            size = rows * columns
            flat += ([(2 * u - 1) / math.sqrt(rows) for u in islice(drawn, size)] if each.endswith("a")
                     else [0.0] * size)  # fmt: skip
        flat = [single(x) for x in flat]
        full = [single(0.25 * i - 3.0) for i in range(len(flat))]
        sites = {s: {"inputs": n, "parts": [list(p) for p in parts]} for s, (n, parts) in SITES.items()}
        tensors = [{"name": each, "shape": shape} for each, shape in layout]
        given = {"sites": sites, "rank": rank, "seed": f"0x{seed:016x}", "alpha": alpha, "full": full}
        expect = {"tensors": tensors, "vector": flat, "adapter": _packed(full, layout, alpha / rank)}
        yield vector(name, why, given, expect)


def _packed(flat: list[float], layout: Sequence[tuple[str, list[int]]], scale: float) -> dict[str, Any]:
    """A and B of each site."""
    at, parts = 0, dict[str, Matrix]()
    for name, (rows, columns) in layout:
        parts[name] = [flat[at + i * columns : at + (i + 1) * columns] for i in range(rows)]
        at += rows * columns
    adapter = {}
    for site, (inputs, named) in SITES.items():
        a: Matrix = [
            [x for part, _ in named for x in parts[f"{site}.{part}.lora_a"][i]] for i in range(inputs)
        ]
        b: Matrix = []
        for n, (part, _) in enumerate(named):
            before, behind = (sum(w for _, w in ws) for ws in (named[:n], named[n + 1 :]))
            b += [[0.0] * before + [x * scale for x in row] + [0.0] * behind
                  for row in parts[f"{site}.{part}.lora_b"]]  # fmt: skip
        adapter[site] = {"lora_a": a, "lora_b": b}
    return adapter


ONE = {"layers.0.o": ([[1.0], [2.0]], [[0.5, -1.0, 0.25]])}
TWO = {"layers.0.o": ([[0.0], [-1.0]], [[3.0, 1.0, 0.0]])}
BESIDE = {"layers.1.o": ([[4.0], [0.5]], [[1.0, 1.0, -2.0]])}
AGAINST = {"layers.0.o": ([[-1.0], [-1.0]], ONE["layers.0.o"][1])}
# Singular values 6 and 1: columns and rows are orthogonal.
APART = {"layers.0.o": ([[3.0, 0.0], [0.0, 1.0]], [[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])}
Sites = dict[str, tuple[Matrix, Matrix]]
Device = tuple[int, Sites]  # accepted tokens, adapter


def _averages() -> Iterator[Case]:
    """Cases in which the rank holds the whole mean, and one in which the lost part is known."""
    cases: list[tuple[str, str, list[Device], int | None, list[float] | None]] = [
        ("alone", "one device: its own adapter", [(512, ONE)], None, None),
        ("weighed", "weighted by accepted tokens, 1 to 3; the mean of the products and not of the factors",
         [(100, ONE), (300, TWO)], 2, None),
        ("nothing_accepted", "a device without accepted tokens has weight 0",
         [(0, TWO), (7, ONE)], None, None),
        ("other_places", "a site that an adapter does not have counts as 0",
         [(10, ONE), (30, BESIDE)], None, None),
        ("cut", "rank 1 of 2: the smaller singular value is cut", [(5, APART)], 1, [6.0, 1.0]),
        ("against", "two adapters that cancel in part: rank 1, and nothing is lost",
         [(5, ONE), (5, AGAINST)], 1, None),
    ]  # fmt: skip
    for name, why, devices, rank, singular in cases:
        product, lost = _product(devices), 0.0
        if singular:  # of APART: the kept singular value is the first entry of the product
            product = {site: [rows[0], [0.0] * len(rows[0])] for site, rows in product.items()}
            lost = singular[1] / math.hypot(*singular)
        devices_json = [
            {"accepted": accepted, "tensors": {s: {"lora_a": a, "lora_b": b} for s, (a, b) in sites.items()}}
            for accepted, sites in devices
        ]  # fmt: skip
        expect = {"products": product, "lost": lost}
        yield vector(name, why, {"rank": rank, "devices": devices_json}, expect)


def _product(devices: Sequence[Device]) -> dict[str, Matrix]:
    """The mean of A B at each site."""
    total, mean = sum(accepted for accepted, _ in devices), dict[str, Matrix]()
    for accepted, sites in devices:
        for site, (a, b) in sites.items():
            before = mean.get(site, [[0.0] * len(b[0]) for _ in a])
            mean[site] = [
                [old + accepted / total * fsum(x * b[r][j] for r, x in enumerate(row))
                 for j, old in enumerate(was)]
                for row, was in zip(a, before, strict=True)
            ]  # fmt: skip
    return mean
