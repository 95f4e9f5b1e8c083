"""The expected rounds of sampled texts are those that the runtime's loop takes for these texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.experiments.running.answers import Answer  # noqa: E402
from benchmarks.experiments.running.drafters import in_onnxruntime  # noqa: E402
from benchmarks.experiments.running.expected import expected_rounds, passage  # noqa: E402
from benchmarks.experiments.running.expected_counts import distributions, logits  # noqa: E402
from benchmarks.experiments.running.measure import NUM_DRAFT_TOKENS, Way, rounds  # noqa: E402
from benchmarks.experiments.running.pairs import encode, load_pair, torch_model  # noqa: E402
from omnidraft.learning.positions.target_rows import dense_rows  # noqa: E402
from omnidraft.runtime.session.loaded_bundle import LoadedBundle  # noqa: E402
from omnidraft.runtime.vocab.ngram_cache import NgramCache  # noqa: E402
from omnidraft.runtime.vocab.trie import ActiveTrie  # noqa: E402

QUESTIONS = ["How many legs do 3 cats have?", "Mia has 4 boxes with 12 pencils each. How many pencils?"]
SEEDS, NEW_TOKENS = 12, 32


@pytest.fixture(scope="module")
def pair(bundle_b: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedBundle:
    work = tmp_path_factory.mktemp("expected")
    (work / "bundles").mkdir()
    (work / "bundles/b").symlink_to(bundle_b)
    return load_pair(work, "b")


@pytest.mark.parametrize("mode", ["direct", "trie"])
def test_the_loop_takes_the_expected_rounds(pair: LoadedBundle, mode: Any) -> None:
    """The differences, of fixed seeds, have a mean of 0 within 3.5 standard errors; every n-gram is active.

    The same texts with half of the drafted tokens differ by far more.
    """
    drafter, target = torch_model("drafter").train(False), torch_model("b").train(False)
    ours, theirs = in_onnxruntime(pair, drafter), pair.target.new_model()
    cache = NgramCache(pair.vocab_map, capacity=pair.vocab_map.target_size)
    cache.prefill()
    trie = cache.trie if mode == "trie" else ActiveTrie(pair.vocab_map)
    barred = torch.from_numpy(~pair.vocab_map.draft_allowed if mode == "trie" else pair.vocab_map.direct < 0)
    taken, due, shorter = [], [], []
    for question in QUESTIONS:
        prompt, draft_prompt = encode(pair, question)
        for seed in range(SEEDS):
            way = Way(mode, temperature=1.0, max_new_tokens=NEW_TOKENS)
            answer = Answer(tuple(prompt), tuple(draft_prompt), (), dense_rows(np.zeros((0, 1))))
            loop = list(rounds(pair, theirs, ours, answer, way, cache, seed))
            tokens = [token for each in loop for token in each.emitted]
            p = distributions(logits(target, [*prompt, *tokens[:-1]], len(prompt) - 1), 1.0)
            bos = pair.bundle.drafter.bos_id
            text = passage([*([] if bos is None else [bos]), *draft_prompt], tokens, p, trie, mode == "trie")
            rows = logits(drafter, text.draft_ids.tolist(), text.first)
            q = distributions(rows.masked_fill(barred, -torch.inf), 1.0)
            taken.append(len(loop))
            due.append(expected_rounds(text, q, trie.root_mask, NUM_DRAFT_TOKENS))
            shorter.append(expected_rounds(text, q, trie.root_mask, 1))
    for expected, agrees in ((due, True), (shorter, False)):
        differences = np.subtract(taken, expected)
        error = differences.std() / len(differences) ** 0.5
        assert (abs(differences.mean()) < 3.5 * error) == agrees, (differences.mean(), error)
