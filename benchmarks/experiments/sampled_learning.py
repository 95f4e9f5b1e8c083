"""What a drafter gains at temperatures 0, 0.7 and 1, by the answers and the loss that it learned from.

Tokens per target pass are expected values on texts that the target sampled (running/expected.py), so drafters
are compared on the same texts. Of the answers half is sampled at 1, a quarter at 0.7, a quarter is greedy; an
arm may leave some of them out. The arms `live` count with the runtime's loop. `limit` is the drafter at its
best: every weight, from the learned drafter on; `long` learns from the same answers with LoRA.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from benchmarks.experiments.running.drafters import begin_with, in_onnxruntime
from benchmarks.experiments.running.expected_counts import expected, learned_cache, test_texts
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, Way, counts
from benchmarks.experiments.running.pairs import TARGETS, load_pair, torch_model
from benchmarks.experiments.running.recipes import FULL, LORA, Recipe
from benchmarks.experiments.running.results import Arm
from benchmarks.experiments.running.sampled_answers import MIXED
from benchmarks.experiments.running.sampled_training import Course
from omnidraft.runtime.vocab.ngram_cache import NgramCache

TEMPERATURES = (0.0, 0.7, 1.0)
TASKS = ("gsm8k", "code")
SEEDS = (0, 1, 2)
TEXTS = 200  # test texts; CURVE of them on the way
CURVE = 64
PROMPTS = 2048  # of the comparison of sources and losses
SOURCES = {"T=1": (1.0,), "T=1+greedy": (1.0, 0.0)}
LOSSES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "kl": ("trie-kl", {}),
    "refusals": ("trie-acceptance", {"kind": "refusals"}),
    "kl-refusals": ("trie-acceptance", {"kind": "refusals", "kl": 0.5}),
    "log": ("trie-acceptance", {"kind": "log"}),
}
SECONDS = (("T=1", "refusals"), ("T=1", "kl"), ("T=1", "kl-refusals"), ("T=1", "log"))
SECOND = {**LORA, "learning_rate": 1e-3}  # of a drafter that has learned already
FEW = (128, 512)  # answers that an arm learns from again and again
GROWTH = (128, 256, 512, 1024, 2048, 4096, 8192)  # answers after which a drafter is measured
WAYS = {
    "direct": Way("direct", temperature=1.0),
    "cache": Way("trie", temperature=1.0),
    "cache-block": Way("trie", temperature=1.0, verification="block"),
}


def arms() -> Iterator[Arm]:
    """The drafters that exist, second courses by seed, source, loss; growth, the limit, then live counts."""
    for task in TASKS:
        for target in TARGETS:
            for name in ("untrained", "shipped"):
                yield _given(name, target, task)
            yield _learned("second-T=1+greedy-refusals", _second(target, task, "T=1+greedy", "refusals"))
    for seed in SEEDS[1:]:
        for task in TASKS:
            for target in TARGETS:
                again = replace(_second(target, task, "T=1+greedy", "refusals"), seed=seed)
                yield _learned("second-T=1+greedy-refusals", again)
    for source, loss in SECONDS:
        yield _learned(f"second-{source}-{loss}", _second("a", "gsm8k", source, loss))
    for name, course in _growing().items():
        points = (0, *GROWTH) if name == "growth-other-refusals" else GROWTH
        yield _learned(name, course, points, curve_alone=True)
    for task in TASKS:
        for target in TARGETS:
            yield _learned("limit", _limit(target, task, FULL), GROWTH)
    for task in TASKS:
        for target in TARGETS:
            yield _learned("long", _limit(target, task, LORA), GROWTH)
    for task in TASKS:
        for target in TARGETS:
            for name in ("untrained", "shipped", "second", "limit"):
                yield _live(name, target, task)


def _recipe(loss: str, options: Mapping[str, Any]) -> Recipe:
    name, settings = LOSSES[loss]
    return Recipe(name, settings, options)


def _second(target: str, task: str, source: str, loss: str) -> Course:
    """A course on sampled answers for the drafter that has learned from greedy ones."""
    return Course(target, (task,), SOURCES[source], _recipe(loss, SECOND), PROMPTS, start=target)


def _growing() -> dict[str, Course]:
    """Courses of which the gain after a number of answers is compared: starter-a, GSM8K, LoRA."""

    def course(rate: float, loss: str = "kl", start: str | None = None) -> Course:
        recipe = _recipe(loss, {**LORA, "schedule": "constant", "learning_rate": rate})
        return Course("a", ("gsm8k",), MIXED, recipe, PROMPTS, start=start)

    kept = course(3e-3)
    return {
        "growth-1e-3": course(1e-3),
        "growth-3e-3": kept,
        "growth-1e-2": course(1e-2),
        **{f"growth-replay-{n}": replace(kept, count=n, repeats=PROMPTS // n) for n in FEW},
        "growth-ngrams": replace(kept, by_ngrams=True),
        "growth-refusals": course(3e-3, "refusals"),
        "growth-other": course(3e-3, start="b"),
        "growth-other-refusals": course(3e-3, "refusals", "b"),
    }


def _limit(target: str, task: str, options: Mapping[str, Any]) -> Course:
    """A long course from the learned drafter on, of every weight or LoRA; answers are sampled at 1."""
    recipe = _recipe("refusals", {**options, "learning_rate": 1e-3})
    gsm8k = task == "gsm8k"
    count, numbers, repeats = (4096, (0,), 2) if gsm8k else (None, (0, 1), 4)
    return Course(target, (task,), (1.0,), recipe, count, (1.0,), numbers, repeats, start=target)


def _given(name: str, target: str, task: str) -> Arm:
    """A drafter that nothing is trained for."""

    def run(work: Path) -> dict[str, Any]:
        return measured(work, target, task, _model(work, name, target))

    return Arm("sampled_learning", name, _settings(target, task), run)


def _model(work: Path, name: str, target: str) -> PreTrainedModel:
    model = torch_model("drafter")
    if name == "shipped":
        begin_with(work, model, target)
    return model


def _learned(name: str, course: Course, points: Sequence[int] = (), *, curve_alone: bool = False) -> Arm:
    """A course; with points also the gain on the way, at temperatures 0 and 1."""
    target, task = course.target, course.tasks[0]
    settings = _settings(target, task) | {
        "seed": course.seed, "course": course.as_json(), "points": list(points),
        **({"curve_texts": CURVE} if points else {}),
    }  # fmt: skip

    def run(work: Path) -> dict[str, Any]:
        curve = list[dict[str, Any]]()

        def observe(answers: int, seconds: float, model: PreTrainedModel) -> None:
            curve.append({
                "answers": answers, "seconds": round(seconds, 1),
                **measured(work, target, task, model, (0.0, 1.0), CURVE),
            })  # fmt: skip

        model, summary = course.drafter(work, points, observe if points else None)
        at_end = {} if curve_alone else measured(work, target, task, model)
        return {"training": summary, "curve": curve, **at_end}

    return Arm("sampled_learning", name, settings, run)


def _settings(target: str, task: str) -> dict[str, Any]:
    return {
        "target": target, "task": task, "texts": TEXTS, "temperatures": list(TEMPERATURES),
        "num_draft_tokens": NUM_DRAFT_TOKENS,
    }  # fmt: skip


def measured(
    work: Path,
    target: str,
    task: str,
    model: PreTrainedModel,
    temperatures: Sequence[float] = TEMPERATURES,
    texts: int = TEXTS,
) -> dict[str, Any]:
    """Expected counts of a drafter at each temperature: "direct 1", "warm 1", ..."""
    return {
        f"{way} {temperature:g}": counted
        for temperature in temperatures
        for way, counted in expected(work, target, task, temperature, model, texts).items()
    }


def _live(name: str, target: str, task: str) -> Arm:
    """Counts of the runtime's loop at temperature 1, with the real target."""

    def run(work: Path) -> dict[str, Any]:
        pair = load_pair(work, target)
        courses = {
            "second": _second(target, task, "T=1+greedy", "refusals"),
            "limit": _limit(target, task, FULL),
        }
        model = courses[name].drafter(work)[0] if name in courses else _model(work, name, target)
        drafter, real = in_onnxruntime(pair, model), pair.target.new_model()
        prompts = test_texts(work, target, task, 1.0, TEXTS)
        return {
            title: counts(
                pair, real, drafter, prompts, way,
                NgramCache(pair.vocab_map) if way.mode == "direct" else learned_cache(work, target, task),
            )
            for title, way in WAYS.items()
        }  # fmt: skip

    return Arm("sampled_learning", f"live-{name}", _settings(target, task), run)
