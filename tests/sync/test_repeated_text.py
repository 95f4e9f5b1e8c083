"""What the files of a push reveal of a text that was said often."""

from __future__ import annotations

from itertools import islice, permutations
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.commands.sync.sync_options import open_pair
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.positions.draft_targets import full_trie
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter, write_adapter
from omnidraft.runtime.models.adapter_fit import fit, unfitted
from omnidraft.runtime.session.language_model import load_bundle
from omnidraft.runtime.vocab.cache_file import decode
from omnidraft.runtime.vocab.cache_store import write_table
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.sync.push import adapter_item, cache_item, write_push
from omnidraft.sync.record import read_signed
from support.sync_world import device

WORDS = " rocket", " garden", " window", " seven", " bottle", " green"
PROMPT, TIMES, GUESSES = "The code is", 20, 100


def test_a_push_tells_a_text_that_was_said_often(learnable: Path, tmp_path: Path) -> None:
    """The adapter tells it from the same words in 99 other orders, and the cache has its words.

    So `push`, spec/15-sync.md and docs/sync.md say what both files reveal.
    """
    loaded, pair = load_bundle(learnable, measure="never"), open_pair(learnable)
    bundle, vocab_map = pair.bundle, pair.vocab_map
    orders = np.random.default_rng(0).permutation(list(islice(permutations(WORDS), 720)))[:GUESSES]
    guesses = [loaded.target_tokenizer.encode("".join(order)) for order in orders]
    secret = guesses[0]

    # The target says the first of them, again and again.
    prompt = loaded.draft_prompt(loaded.target_tokenizer.encode(PROMPT))
    rows = TargetRows(np.array(secret, np.int32)[:, None], np.ones((len(secret), 1)), np.zeros(len(secret)))
    said = Aligner(full_trie(vocab_map), max_length=200).align(prompt, secret, rows)
    learner = OrtLearner(bundle, vocab_map, StepOptions(learning_rate=3e-3))
    for _ in range(TIMES):
        learner.learn([said])
    cache = NgramCache(vocab_map)
    cache.learn(secret, 0)

    write_adapter(tmp_path / "a.safetensors", learner.adapter())
    write_table(tmp_path / "c.odc", cache.table())
    items = [adapter_item(tmp_path / "a.safetensors", pair), cache_item(tmp_path / "c.odc", vocab_map)]
    sent = read_signed(write_push(items, pair, 1, device(1)), "push", None)
    assert sent.adapter is not None and sent.cache is not None

    def likelihoods(adapter: Adapter | None) -> np.ndarray:
        """The logarithm of the drafter's probability of each guess."""
        assert loaded.drafter is not None
        model, fitted = loaded.drafter.new_model(), unfitted(bundle, "drafter")
        model.use_adapter((fitted if adapter is None else fit(adapter, bundle, vocab_map)[1]).tensors or {})
        found = []
        for guess in guesses:
            ids = [piece for token in guess for piece in vocab_map.spell(token)]
            model.rewind(0)
            logits = model.score([*prompt, *ids])[len(prompt) - 1 : -1].astype(np.float64)
            found.append((logits[np.arange(len(ids)), ids] - np.logaddexp.reduce(logits, axis=1)).sum())
        return np.array(found)

    gains = likelihoods(decode_adapter(sent.adapter)) - likelihoods(None)
    assert gains.argmax() == 0
    assert gains[0] - gains[1:].max() > 1.0, "e times as much as any other order"
    words = {vocab_map.bytes_of(int(token)).decode() for token in decode(sent.cache).targets}
    assert len(words & set(WORDS)) >= 2, words
