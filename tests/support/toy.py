"""A language small enough to enumerate: six to eight draft tokens, ten target tokens, random models."""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import Ragged, VocabMap

# i: maps to nothing; sfo: longer than a target token; #: control
DRAFT = ["s", "f", "la", "ke", "o", "i", "sfo", "#"]
TARGET = ["S", "F", "LA", "KE", "O", "FLAKE", "FO", "FLAS", "X", "LAKE"]  # X: nothing spells it
DIRECT = {"s": "S", "f": "F", "la": "LA", "ke": "KE", "o": "O"}
GRAMS = {"FLAKE": ["f", "la", "ke"], "FO": ["f", "o"], "FLAS": ["f", "la", "s"], "LAKE": ["la", "ke"]}
EXPANSIONS = {"sfo": ["S", "F", "O"]}


def toy_map(direct: dict[str, str] = DIRECT) -> VocabMap:
    """The map of the toy language; `direct` may leave pairs out."""
    d, t = DRAFT.index, TARGET.index
    spellings: list[list[int]] = [[] for _ in TARGET]
    for draft, target in direct.items():
        spellings[t(target)] = [d(draft)]
    for target, pieces in GRAMS.items():
        spellings[t(target)] = [d(p) for p in pieces]
    pairs = np.full(len(DRAFT), -1, dtype=np.int32)
    for draft, target in direct.items():
        pairs[d(draft)] = t(target)
    expansions = [[t(x) for x in EXPANSIONS.get(draft, [])] for draft in DRAFT]
    leaves = sorted((i for i, s in enumerate(spellings) if s), key=lambda i: spellings[i])
    names = [list(x.encode()) for x in TARGET]
    return VocabMap(
        target_bytes=ragged(names, np.uint8),
        direct=pairs,
        spellings=ragged(spellings),
        expansions=ragged(expansions),
        leaves=np.array(leaves, dtype=np.int32),
        draft_allowed=np.array([x != "#" for x in DRAFT]),
        draft_fingerprint="d" * 64,
        target_fingerprint="e" * 64,
    )


def ragged(rows: Sequence[Sequence[int]], dtype: npt.DTypeLike = np.int32) -> Ragged:
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(r) for r in rows], out=offsets[1:])
    return Ragged(np.array([i for r in rows for i in r], dtype=dtype), offsets)


def toy_cache(vocab_map: VocabMap, grams: Sequence[str | int]) -> NgramCache:
    cache = NgramCache(vocab_map)
    for gram in grams:
        assert cache.insert(gram if isinstance(gram, int) else TARGET.index(gram))
    return cache


class ContextModel:
    """Random logits that depend on the whole context, in float64; scores and rewinds like any model."""

    def __init__(self, seed: int, vocab_size: int, *, spread: float = 1.5, max_length: int = 64) -> None:
        self.seed, self.vocab_size, self.spread, self.max_length = seed, vocab_size, spread, max_length
        self.context: list[int] = []
        self.passes = 0
        self._rows: dict[tuple[int, ...], npt.NDArray[np.float64]] = {}

    @property
    def length(self) -> int:
        return len(self.context)

    def row(self, context: Sequence[int]) -> npt.NDArray[np.float64]:
        key = tuple(context)
        if key not in self._rows:
            digest = hashlib.sha256(repr((self.seed, key)).encode()).digest()
            rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
            self._rows[key] = rng.normal(size=self.vocab_size) * self.spread
        return self._rows[key]

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        assert tokens
        assert self.length + len(tokens) <= self.max_length
        self.passes += 1
        rows = []
        for token in tokens:
            self.context.append(int(token))
            rows.append(self.row(self.context))
        return np.array(rows[-(num_logits or len(rows)) :])

    def rewind(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self.context[length:]


Spoil = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.floating]]
BAD_ROWS: Mapping[str, Spoil] = {
    "one NaN": lambda row: np.where(np.arange(len(row)) == 2, np.nan, row),
    "NaN": lambda row: np.full(len(row), np.nan),
    "one infinity": lambda row: np.where(np.arange(len(row)) == 3, np.inf, row),
    "infinity": lambda row: np.full(len(row), np.inf),
    "nothing": lambda row: np.full(len(row), -np.inf),
}
ABSURD_ROWS: Mapping[str, Spoil] = {
    "one is left": lambda row: np.where(np.arange(len(row)) == 1, row, -np.inf),
    "huge": lambda row: row * 1e38,
    "tens of thousands": lambda row: row * 1e4,
    "float32's edges": lambda row: np.where(row > 0.0, 3.4e38, -3.4e38).astype(np.float32),
    "all equal": lambda row: np.zeros(len(row)),
}


class UnsoundModel(ContextModel):
    """A model whose logits are spoiled after some texts; after all of them with share 1."""

    spoil: Spoil
    share = 0.4

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        before = self.length
        rows = super().score(tokens)
        texts = [self.context[: before + n + 1] for n in range(len(tokens))]
        drawn = [float(abs(self.row([*text, -2])[0]) % 1.0) for text in texts]
        rows = np.array([self.spoil(r) if d < self.share else r for r, d in zip(rows, drawn, strict=True)])
        return rows[-(num_logits or len(rows)) :]


def processed(
    row: npt.NDArray[np.float64], sampling: SamplingConfig, context: Sequence[int]
) -> npt.NDArray[np.float64]:
    """The target's distribution as `SamplingConfig` describes it, step by step with a plain sort."""
    logits = row.tolist()
    for t in set(context):
        logits[t] *= 1.0 / sampling.repetition_penalty if logits[t] > 0.0 else sampling.repetition_penalty
    if sampling.temperature == 0.0:
        certain: npt.NDArray[np.float64] = np.eye(len(logits))[logits.index(max(logits))]
        return certain
    p = softmax(np.array(logits), sampling.temperature)
    ranked = sorted(range(len(p)), key=lambda t: (-p[t], t))
    ranked = ranked[: sampling.top_k or len(ranked)]
    mass, before, kept = p[ranked].sum(), 0.0, []
    for t in ranked:
        if before / mass < sampling.top_p and p[t] >= sampling.min_p * p[ranked[0]]:
            kept.append(t)
        before += p[t]
    q = np.zeros(len(p))
    q[kept] = p[kept] / p[kept].sum()
    return q


def softmax(logits: npt.NDArray[np.float64], temperature: float) -> npt.NDArray[np.float64]:
    z: npt.NDArray[np.float64] = np.exp((logits - logits.max()) / temperature)
    z /= z.sum()
    return z
