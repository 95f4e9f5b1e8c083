"""Run the core's vectors by the reference in float32: `python spec/check_float32.py`.

README.md allows a runtime to keep weights, sums and ratios in float32. This script proves that no vector
depends on more: it computes every weight, sum and ratio of vectorlib/reference in float32, sums from left to
right, and prints how many vectors of each folder pass. Exit status 1 if one does not.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from vectorlib.cases.decoding.generate_tasks import DEFAULTS, GRAPHS
from vectorlib.cases.grammar.grammars import GRAMMARS
from vectorlib.reference import generate, random_source, sampling, verifier
from vectorlib.reference.draft_length import Costs
from vectorlib.reference.grammar_tokens import Language
from vectorlib.reference.random_source import Distribution, RandomSource
from vectorlib.reference.translator import translate, translate_longest
from vectorlib.reference.vocab_map import MAPS, Trie

VECTORS = Path(__file__).resolve().parent / "vectors"
TOLERANCE = 1e-6
Vector = dict[str, Any]


def narrow_the_reference() -> None:
    """Replace what the reference computes with by float32, and let no edge be too close."""
    for module in (random_source, sampling, verifier):
        module.fsum = _sum  # type: ignore[attr-defined]
    narrow_math = SimpleNamespace(exp=lambda x: np.exp(np.float32(x)), inf=math.inf)
    sampling.math = narrow_math  # type: ignore[attr-defined, assignment]
    made, nucleus = Distribution.__init__, sampling._nucleus

    def narrow(self: Distribution, weights: Iterable[float], certain: bool = False) -> None:
        made(self, tuple(np.float32(w) for w in weights), certain)

    Distribution.__init__ = narrow  # type: ignore[method-assign]
    sampling._nucleus = lambda ranked, weights, top_p, margin: nucleus(ranked, weights, top_p, 0.0)
    random_source.TINY = random_source.ROUNDING = random_source.LEAST_RESIDUAL = 0.0
    verifier.LEAST = 1e-37  # 1e-300 is 0 in float32


def _sum(numbers: Iterable[float]) -> Any:
    total = np.float32(0.0)
    for number in numbers:
        total = np.float32(total + np.float32(number))
    return total


def source(uniforms: Iterator[float]) -> RandomSource:
    """A random source without margins, whose uniforms are float64 in every product and comparison."""
    return RandomSource((np.float64(u) for u in uniforms), 0.0)


def close(actual: Iterable[float], expected: Iterable[float]) -> bool:
    a, b = np.array(list(actual), dtype=np.float64), np.array(list(expected))
    return (
        a.shape == b.shape and bool(np.all(np.abs(a - b) <= TOLERANCE)) and bool(np.all((a > 0) == (b > 0)))
    )


def close_logs(actual: list[float], expected: list[float]) -> bool:
    return len(actual) == len(expected) and bool(np.allclose(actual, expected, rtol=0.0, atol=1e-6))


def check_random(given: Vector, expect: Vector) -> bool:
    if "weights" in given:
        weights = [np.float32(w) for w in given["weights"]]
        indices = [random_source.inverse_cdf(weights, np.float64(u)) for u in given["uniforms"]]
        return bool(indices == expect["indices"])
    if "bernoulli" in given:
        random = source(iter(given["uniforms"]))
        return bool([random.bernoulli(np.float32(p)) for p in given["bernoulli"]] == expect["answers"])
    return True  # 64 bits have no weights


def check_sampling(given: Vector, expect: Vector) -> bool:
    row = [np.float32(x) for x in given["logits"]]
    try:
        return _right_distribution(given, expect, row)
    except sampling.NoDistribution:
        return bool(expect["fault"] == "logits")


def _right_distribution(given: Vector, expect: Vector, row: list[Any]) -> bool:
    if "banned" in given:
        distribution = sampling.draft_distribution(row, given["temperature"], given["banned"])
    else:
        settings = sampling.Sampling(**given["settings"])
        distribution = sampling.target_distribution(row, settings, given["context"])
    probabilities = expect["probabilities"]
    found = (distribution.probability(t) for t in range(len(row)))
    return probabilities is not None and close(found, probabilities)


def check_verify(given: Vector, expect: Vector) -> bool:
    vocab_map = MAPS[given["map"]]
    trie, q = Trie(vocab_map, given["active"]), [Distribution(tuple(row)) for row in given["q"]]
    if "proposed" in given:
        return close(verifier.paper_distribution(trie, q, given["proposed"]), expect["distribution"])
    into_target = translate if given["rule"] in ("token", "block") else translate_longest
    proposal = into_target(given["draft"], trie, 8, given["rule"] != "paper")
    random, p = source(iter(given["uniforms"])), [Distribution(tuple(row)) for row in given["p"]]
    verdict = verifier.VERIFIERS[given["rule"]](proposal, q, p, trie, random)
    same = all(getattr(verdict, name) == expect[name] for name in vars(verdict))
    return same and len(random.used) == len(given["uniforms"])


def check_generate(given: Vector, expect: Vector) -> bool:
    models, due = None, [expect, *expect.get("then", [])]
    for changes, texts in zip([{}, *given.get("then", [])], due, strict=True):
        task = task_of(given | changes, "logprobs" in texts["rounds"][0])
        models = generate.Models.of(task) if models is None else models
        random = source(random_source.uniforms_of(task.seed))
        rounds = list(generate.generate(task, random, models))
        for actual, row in zip(rounds, texts["rounds"], strict=True):
            if not close_logs(actual.pop("logprobs", []), row.pop("logprobs", [])):
                return False
            if {name: actual[name] for name in row} != row:
                return False
        if len(random.used) != texts["uniforms"] or texts["context"] not in (None, rounds[-1]["context"]):
            return False
    return True


def task_of(given: Vector, logprobs: bool) -> generate.Task:
    """The task that a vector describes."""
    same = ("prompt", "draft_prompt", "mode", "verification", "num_draft_tokens", "max_new_tokens", "active",
            "max_length", "draft_max_length", "eos_ids")  # fmt: skip
    costs = Costs(**given["costs"]) if "costs" in given else None
    return generate.Task(
        MAPS[given["map"]], GRAPHS["target"], GRAPHS[given["drafter"].removesuffix(".onnx")],
        seed=int(given["seed"], 16), start=given["draft_start"], logprobs=logprobs,
        costs=costs, defaults=DEFAULTS["draft_length"], language=language_of(given),
        sampling=sampling.Sampling(**given["sampling"]), **{name: given[name] for name in same},
    )  # fmt: skip


def language_of(given: Vector) -> Language | None:
    """The grammar of a vector that has one."""
    if "grammar" not in given:
        return None
    tokens = (given["target_tokens"], given["draft_tokens"])
    target, draft = ([None if t is None else bytes.fromhex(t) for t in each] for each in tokens)
    return Language(given["grammar"], GRAMMARS[given["grammar"].removesuffix(".grammar")], target, draft)


CHECKS: dict[str, Callable[[Vector, Vector], bool]] = {
    "random": check_random,
    "sampling": check_sampling,
    "verify": check_verify,
    "generate": check_generate,
    "logprobs": check_generate,
    "grammar/generate": check_generate,
}


def vectors_of(folder: str) -> Iterator[Vector]:
    for path in sorted((VECTORS / folder).glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        yield from content if isinstance(content, list) else []


if __name__ == "__main__":
    narrow_the_reference()
    wrong = 0
    for folder, check in CHECKS.items():
        failed = [v["name"] for v in vectors_of(folder) if not check(v["input"], v["expect"])]
        together = len(list(vectors_of(folder)))
        print(f"{folder:16} {together - len(failed):4} of {together:4}", *failed)
        wrong += len(failed)
    sys.exit(wrong > 0)
