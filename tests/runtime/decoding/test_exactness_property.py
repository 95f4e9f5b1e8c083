"""One round has the target's distribution for random vocabularies, maps, caches and models."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from support.enumerate_distribution import Case, distribution_of_output, total_variation
from support.toy import ragged


@st.composite
def maps(draw: st.DrawFn) -> VocabMap:
    """Two small vocabularies with direct pairs, n-grams, an alias, orphans, expansions and banned ids."""
    draft_size, target_size = draw(st.integers(2, 4)), draw(st.integers(3, 6))
    paired = draw(st.integers(1, min(draft_size, target_size - 1)))
    spellings: list[list[int]] = [[] for _ in range(target_size)]
    direct = np.full(draft_size, -1, dtype=np.int32)
    drafts = draw(st.permutations(range(draft_size)))[:paired]
    targets = draw(st.permutations(range(target_size)))
    for d, t in zip(drafts, targets, strict=False):
        direct[d], spellings[t] = t, [d]
    runs = st.lists(st.integers(0, draft_size - 1), min_size=2, max_size=3).map(tuple)
    grams = draw(st.lists(runs, unique=True, max_size=target_size - paired))
    for t, gram in zip(targets[paired:], grams, strict=False):
        spellings[t] = list(gram)
    leaves = sorted((t for t in range(target_size) if spellings[t]), key=lambda t: spellings[t])
    if len(grams) < target_size - paired and draw(st.booleans()):
        spellings[targets[-1]] = [drafts[0]]  # an alias: spelled, but not a leaf
    ids = st.lists(st.integers(0, target_size - 1), min_size=2, max_size=2)
    expansions = [draw(ids) if direct[d] < 0 and draw(st.booleans()) else [] for d in range(draft_size)]
    allowed = np.array([direct[d] >= 0 or draw(st.booleans()) for d in range(draft_size)])
    return VocabMap(
        target_bytes=ragged([[65 + t] for t in range(target_size)], np.uint8),
        direct=direct,
        spellings=ragged(spellings),
        expansions=ragged(expansions),
        leaves=np.array(leaves, dtype=np.int32),
        draft_allowed=allowed,
        draft_fingerprint="d" * 64,
        target_fingerprint="t" * 64,
    )


SAMPLINGS = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    top_k=st.sampled_from([0, 0, 2, 3]),
    top_p=st.sampled_from([1.0, 1.0, 0.6]),
    min_p=st.sampled_from([0.0, 0.0, 0.2]),
    repetition_penalty=st.sampled_from([1.0, 2.0]),
)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    vocab_map=maps(),
    known=st.sets(st.integers(0, 5)),
    sampling=SAMPLINGS,
    verification=st.sampled_from(["token", "block"]),
    mode=st.sampled_from(["trie", "trie", "trie", "match", "direct", "lookup"]),
    seed=st.integers(0, 99),
)
def test_one_round_has_the_targets_distribution(
    vocab_map: VocabMap, known: set[int], sampling: SamplingConfig, verification: str, mode: str, seed: int
) -> None:
    cache = NgramCache(vocab_map)
    grams = [t for t in known if t < vocab_map.target_size and cache.insert(t)]
    case = Case(mode, verification, sampling, seed, grams=grams, most=4, prompt=(0, 1, 0, 1))  # type: ignore[arg-type]
    distribution = distribution_of_output(case, vocab_map)
    assert total_variation(distribution, case, vocab_map.target_size) < 1e-9
