"""What a form of the weights costs in quality of text: perplexity, and KL divergence to the source.

`export` and `eval` measure it, the manifest keeps it (spec/03-bundle.md, "What the form costs"), and
`inspect`, `doctor` and `bench` show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.disk.json_fields import integer, mapping, number, text
from omnidraft.sample_texts import TextPiece

Rows = npt.NDArray[np.floating]

AIM = 0.03  # of perplexity: what a form that is chosen by measurement may lose
MOST_LOSS = 0.05  # of perplexity: a larger loss is worth a warning
MAX_PERPLEXITY, MAX_KL = 1e9, 1e3  # what a manifest holds; a larger value is stored as this one
MAX_KINDS, MAX_NAME = 64, 64
_ROWS = 64  # positions that are scored in one pass
_VALUES = 1 << 18  # logits that are compared at a time: they stay in the processor's cache


@dataclass(frozen=True)
class TextQuality:
    """A model on some text, and beside its source where that was measured on the same tokens."""

    tokens: int  # that were predicted
    perplexity: float  # of the model; the exponential of the mean of -ln p(token)
    source_perplexity: float | None = None  # of the source in float32; None where it was not measured
    kl: float | None = None  # mean over the positions of KL(source, model) in nats
    agreement: float | None = None  # share of the positions whose likeliest token is the source's

    @property
    def loss(self) -> float:
        """Perplexity over the source's, less 1; 0 where the source was not measured."""
        return 0.0 if self.source_perplexity is None else self.perplexity / self.source_perplexity - 1.0

    @property
    def sentence(self) -> str:
        """The figures in one line."""
        found = f"perplexity {self.perplexity:.2f}"
        if self.source_perplexity is None or self.kl is None or self.agreement is None:
            return f"{found} over {self.tokens:,} tokens"
        return (
            f"{found}, the source's {self.source_perplexity:.2f} ({100 * self.loss:+.1f} %); "
            f"KL {self.kl:.2g} nats a token; same likeliest token {self.agreement:.1%} "
            f"of {self.tokens:,}"
        )


@dataclass(frozen=True)
class Quality:
    """The quality of a model's text by kind."""

    text: str  # name of the texts
    whole: TextQuality  # over all of them
    kinds: Mapping[str, TextQuality] = field(default_factory=dict)  # by kind

    @property
    def bad(self) -> bool:
        """Whether the loss is worth a warning."""
        return self.whole.loss > MOST_LOSS

    def as_json(self) -> dict[str, Any]:
        """The object of a manifest, and of `--json`."""
        return {
            "text": self.text,
            **asdict(self.whole),
            "kinds": {k: asdict(v) for k, v in self.kinds.items()},
        }


class _Sums:
    """Sums over positions."""

    def __init__(self) -> None:
        self.tokens, self.same, self.against = 0, 0, False
        self.nll, self.source_nll, self.kl = 0.0, 0.0, 0.0

    def add(self, rows: Rows, ids: Sequence[int], source: Rows | None) -> None:
        """Count rows [n, vocab] that predict `ids` [n]."""
        step = max(1, _VALUES // rows.shape[1])
        for at in range(0, len(ids), step):
            part = slice(at, at + step)
            self._add(rows[part], ids[part], None if source is None else source[part])

    def _add(self, rows: Rows, ids: Sequence[int], source: Rows | None) -> None:
        self.tokens += len(ids)
        ours, at = log_softmax(rows), np.arange(len(ids))
        self.nll -= float(ours[at, ids].sum(dtype=np.float64))
        if source is None:
            return
        self.against = True
        theirs = log_softmax(source)
        self.source_nll -= float(theirs[at, ids].sum(dtype=np.float64))
        self.kl += float((np.exp(theirs) * (theirs - ours)).sum(dtype=np.float64))
        self.same += int((rows.argmax(axis=1) == source.argmax(axis=1)).sum())

    def join(self, other: _Sums) -> None:
        """Count what another one counted."""
        self.against = other.against
        for name in ("tokens", "same", "nll", "source_nll", "kl"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def quality(self) -> TextQuality:
        """The means."""
        count = max(1, self.tokens)
        perplexity = _perplexity(self.nll / count)
        if not self.against:
            return TextQuality(self.tokens, perplexity)
        kl = min(MAX_KL, max(0.0, self.kl / count)) if math.isfinite(self.kl) else MAX_KL
        return TextQuality(
            self.tokens, perplexity, _perplexity(self.source_nll / count), kl, self.same / count
        )


def log_softmax(rows: Rows) -> Rows:
    """Natural logarithms of the probabilities, [n, vocab]."""
    shifted = rows - rows.max(axis=1, keepdims=True)
    total: Rows = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return total


def _perplexity(nll: float) -> float:
    """exp(nll), at most what a manifest holds; a model that computes no numbers has that, too."""
    return min(MAX_PERPLEXITY, math.exp(min(max(nll, 0.0), 100.0))) if math.isfinite(nll) else MAX_PERPLEXITY


def measure_quality(
    model: Model,
    pieces: Sequence[TextPiece],
    source: Callable[[Sequence[int]], Rows] | None = None,
    *,
    name: str,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Quality:
    """Score texts with a model, and compare it with its source.

    Args:
        pieces: at least one; of each no more than the model's context is used.
        source: the source's logits [n, vocab] of all positions of the ids that it is given.
        progress: called with (pieces done, all pieces).
    """
    sums: dict[str, _Sums] = {}
    for done, piece in enumerate(pieces):
        progress(done, len(pieces))
        ids = piece.ids[: model.max_length]
        theirs = None if source is None else source(ids)
        kind = sums.setdefault(piece.kind, _Sums())
        model.rewind(0)
        for at in range(0, len(ids) - 1, _ROWS):
            read, predicted = ids[at : min(at + _ROWS, len(ids) - 1)], ids[at + 1 : at + 1 + _ROWS]
            rows = model.score(read).astype(np.float32)
            beside = None if theirs is None else theirs[at : at + len(read)]
            kind.add(rows, predicted, beside)
    progress(len(pieces), len(pieces))
    whole = _Sums()
    for kind in sums.values():
        whole.join(kind)
    return Quality(name, whole.quality(), {kind: each.quality() for kind, each in sums.items()})


def read_quality(manifest: Mapping[str, Any]) -> Quality | None:
    """The quality that a manifest tells; None where it tells none, or a value is out of its range.

    No runtime needs it, so that a fault in it refuses no bundle.
    """
    try:
        data = mapping(mapping(manifest["checks"])["quality"])
        kinds = mapping(data["kinds"], MAX_KINDS)
        parts = {text(name, MAX_NAME): _read(mapping(part)) for name, part in kinds.items()}
        return Quality(text(data["text"], MAX_NAME), _read(data), parts)
    except (KeyError, TypeError, ValueError):
        return None


def _read(data: Mapping[str, Any]) -> TextQuality:
    return TextQuality(
        integer(data["tokens"], 1, (1 << 53) - 1),
        number(data["perplexity"], 1.0, MAX_PERPLEXITY),
        number(data["source_perplexity"], 1.0, MAX_PERPLEXITY),
        number(data["kl"], 0.0, MAX_KL),
        number(data["agreement"], 0.0, 1.0),
    )
