"""Writes what the Python runtime says with the starter bundles, for RealBundleTest of the Kotlin library.

`expected_ids.py BUNDLES NAME` writes BUNDLES/expected/NAME for the bundle `a`, `b` or `half`: a cache, an
adapter and a session that Python saved, and ids.json with prompts, settings and ids.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft import TextSession, load_bundle
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.decoding.distribution import Categorical, Ids
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import encode_adapter
from omnidraft.runtime.session.api import Generation
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.sample_prompts import PROMPTS, word_problems

COUNT, TOKENS = 12, 20  # prompts, and output tokens of each
EDGE = 1e-7  # a uniform that is nearer to a boundary decides by rounding; a port may round in another way
CREATED = "2026-01-02T03:04:05Z"
QUESTIONS = (
    "How many legs do 3 cats have?",
    "And how many legs do 4 more cats have?",
    "Add one dog to them.",
)
FIXED: dict[str, Any] = {"temperature": 1.0, "num_draft_tokens": 4}
SAMPLED: dict[str, Any] = {"temperature": 1.0}
# Name, settings, whether the session begins with the cache and with the adapter.
RUNS: tuple[tuple[str, dict[str, Any], bool, bool], ...] = (
    ("greedy", {}, False, False),
    ("greedy, cache", {}, True, False),
    ("greedy, 4", {"num_draft_tokens": 4}, False, False),
    ("plain", {"temperature": 1.0, "mode": "plain"}, False, False),
    ("lookup", {"temperature": 1.0, "mode": "lookup"}, False, False),
    ("fixed", FIXED, False, False),
    ("fixed, cache", FIXED, True, False),
    ("fixed, adapter", FIXED, False, True),
    ("block", {**FIXED, "verification": "block"}, True, False),
    ("auto", SAMPLED, False, False),
    ("auto, cache, adapter", SAMPLED, True, True),
    (
        "settings",
        {
            "temperature": 0.8,
            "top_k": 40,
            "top_p": 0.9,
            "min_p": 0.02,
            "repetition_penalty": 1.1,
            "num_draft_tokens": 3,
        },
        False,
        False,
    ),
    ("logprobs", {**FIXED, "logprobs": True, "stop": ["."]}, False, False),
)


STATIC_RUNS = ("greedy, cache", "plain", "fixed, cache", "auto")  # of RUNS, with the static graphs on the CPU
STATIC_PROMPTS = 10


def main(bundles: Path, name: str) -> None:
    watch_uniforms()
    place = bundles / "expected" / name
    place.mkdir(parents=True, exist_ok=True)
    write(bundles / name, place, [*PROMPTS, *word_problems(COUNT - len(PROMPTS))])


def write(bundle: Path, place: Path, prompts: list[str]) -> None:
    """Write what one bundle says."""
    loaded = load_bundle(bundle, measure="never")
    (place / "adapter.safetensors").write_bytes(encode_adapter(adapter_of(loaded.bundle)))
    write_cache(loaded, place / "cache.odc", prompts)
    runs = [run_of(loaded, place, prompts, *run) for run in RUNS]
    content = {
        "tokens": TOKENS,
        "prompts": prompts,
        "runs": runs,
        "session": session_of(loaded, place / "talk.session"),
        "static": static_runs(bundle, place, prompts[:STATIC_PROMPTS]),
    }
    (place / "ids.json").write_text(json.dumps(content), encoding="utf-8")


def static_runs(bundle: Path, place: Path, prompts: list[str]) -> list[dict[str, Any]]:
    """What a bundle says with its static graphs on the CPU; nothing where it has none."""
    if not open_bundle(bundle).target.places:
        return []
    loaded = load_bundle(bundle, target_on="npu", drafter_on="npu", measure="never")
    return [run_of(loaded, place, prompts, *run) for run in RUNS if run[0] in STATIC_RUNS]


def run_of(
    loaded: LanguageModel,
    place: Path,
    prompts: list[str],
    name: str,
    settings: dict[str, Any],
    cache: bool,
    adapter: bool,
) -> dict[str, Any]:
    """The ids of all prompts, one after another in one session; no seed lies near an edge."""
    given = {**settings, "max_new_tokens": TOKENS}
    session = TextSession(
        loaded,
        cache=place / "cache.odc" if cache else None,
        adapter=place / "adapter.safetensors" if adapter else None,
    )
    answers = [answer_of(session, prompt, seed_of(i), given) for i, prompt in enumerate(prompts)]
    counts = count_rounds(answers)
    return {
        "name": name,
        "settings": given,
        "cache": cache,
        "adapter": adapter,
        "seeds": [f"{answer.seed:016x}" for answer in answers],
        "ids": [answer.token_ids for answer in answers],
        "texts": [answer.text for answer in answers],
        "logprobs": [answer.logprobs for answer in answers],
        "counts": counts,
    }


def answer_of(session: TextSession, prompt: str, seed: int, settings: dict[str, Any]) -> Generation:
    """An answer with this seed, or the next one that does not lie near an edge."""
    learned = session.cache.table()
    while True:
        NEAREST[0] = 1.0
        answer = session.generate(prompt, seed=seed, **settings).finish()
        if NEAREST[0] >= EDGE:
            return answer
        session.cache = NgramCache.of_table(learned, session.vocab_map)
        seed += 1


def count_rounds(answers: list[Generation]) -> list[int]:
    """Rounds, draft tokens drawn, verified and accepted, and new n-grams of all answers."""
    totals = Statistics()
    for answer in answers:
        totals.merge(answer.statistics)
    return [totals.rounds, totals.drafted, totals.evaluated, totals.accepted_drafts, totals.learned]


NEAREST = [1.0]  # distance of a uniform to the nearest boundary


def watch_uniforms() -> None:
    """Note how near each uniform comes to the value that it is compared with."""
    draw, bernoulli = Categorical.draw, SplitMix64.bernoulli

    def watched_draw(self: Categorical, uniform: float, among: Ids | None = None) -> int:
        sums = np.cumsum(self._weights if among is None else self._weights[among], dtype=np.float64)
        NEAREST[0] = min(NEAREST[0], float(np.abs(sums / sums[-1] - uniform).min()))
        return draw(self, uniform, among)

    def watched_bernoulli(self: SplitMix64, probability: float) -> bool:
        if 0.0 < probability < 1.0:
            NEAREST[0] = min(NEAREST[0], abs(SplitMix64(self.state).uniform() - probability))
        return bernoulli(self, probability)

    setattr(Categorical, "draw", watched_draw)  # noqa: B010 # a type checker allows no assignment
    setattr(SplitMix64, "bernoulli", watched_bernoulli)  # noqa: B010


def seed_of(number: int) -> int:
    """The seed of a prompt; those of every third one have the highest bit."""
    return 7919 * number + (1 << 63 if number % 3 == 0 else 1)


def adapter_of(bundle: Bundle) -> Adapter:
    """An adapter of random numbers for the drafter."""
    entry, rng = bundle.drafter, np.random.default_rng(7)
    assert entry.lora is not None and entry.fingerprint is not None

    def draw(*shape: int, size: float = 0.02) -> np.ndarray:
        return (rng.normal(size=shape) * size).astype(np.float32)

    tensors = {name: (draw(site.inputs, 4), draw(4, site.outputs)) for name, site in entry.lora.sites.items()}
    fingerprints = entry.tokenizer_fingerprint, bundle.target.tokenizer_fingerprint
    return Adapter(entry.fingerprint, *fingerprints, tensors, CREATED)


def write_cache(loaded: LanguageModel, file: Path, prompts: list[str]) -> None:
    """Save what a session learns from some prompts, and every other n-gram of the map without counts."""
    session = TextSession(loaded)
    for prompt in prompts[::3]:
        session.generate(prompt, max_new_tokens=TOKENS, num_draft_tokens=4).finish()
    session.cache.prefill()
    session.save_cache(file)


def session_of(loaded: LanguageModel, file: Path) -> dict[str, Any]:
    """Save a conversation in the middle of an answer; what follows in it."""
    session = TextSession(loaded)
    session.chat(QUESTIONS[0], max_new_tokens=TOKENS).finish()
    answer = session.chat(QUESTIONS[1], seed=12345, max_new_tokens=TOKENS, **FIXED)
    for _ in range(3):
        next(iter(answer))
    session.save(file)
    restored = TextSession(loaded)
    restored.load(file)
    before = len(answer.token_ids)
    resumed = restored.resume().finish()
    after = restored.chat(QUESTIONS[2], max_new_tokens=TOKENS, num_draft_tokens=4).finish()
    return {"questions": QUESTIONS, "before": before, "resumed": resumed.token_ids, "after": after.token_ids}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
