"""From logits to distributions: drafting, verification, correction and bonus use the same probabilities.

Each row has one processed distribution, used for every step (method: "apply to p first"). This keeps the
output exact.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnidraft import defaults
from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.decoding.distribution import (
    Categorical,
    Distribution,
    Ids,
    OneHot,
    Row,
    Workspace,
    divided,
)
from omnidraft.runtime.decoding.model import Logits

_COLDEST = 1e-4
_FLOORS = (2.0**-6, 2.0**-9, 2.0**-12, 2.0**-16, 2.0**-24, 0.0)  # of a weight, all of which are at most 1


class LogitsError(BundleError):
    """A row of logits of which no distribution can be made: its largest logit is NaN or infinite."""


@dataclass(frozen=True)
class SamplingConfig:
    """How a row of logits becomes the target's distribution.

    The steps are taken in the order of transformers: repetition penalty, temperature, top-k, top-p, min-p.

    Attributes:
        temperature: divides the logits; 0 takes the argmax after the penalty (ties: lowest id).
        top_k: number of the most probable tokens to keep (ties: lowest ids first); 0 keeps all.
        top_p: of those, in order of falling probability (ties: lowest ids first), keep each token before
            which less than this share of their mass comes; 1 keeps all.
        min_p: of those, keep each token with at least this share of the largest probability; 0 keeps all.
        repetition_penalty: divides the positive and multiplies the negative logits of every id in the
            context, prompt included (Keskar et al., CTRL, 2019); 1 changes nothing.

    Raises:
        SettingError: a value outside its range.
    """

    temperature: float = defaults.TEMPERATURE
    top_k: int = defaults.TOP_K
    top_p: float = defaults.TOP_P
    min_p: float = defaults.MIN_P
    repetition_penalty: float = defaults.REPETITION_PENALTY

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        for name, holds, fault, remedy in (
            ("top_k", self.top_k >= 0, "less than 0", "use 0 to keep all tokens, 40 is usual"),
            ("top_p", 0.0 < self.top_p <= 1.0, "outside 0 < top_p <= 1",
             "use 1 to keep all tokens, 0.95 is usual"),
            ("min_p", 0.0 <= self.min_p <= 1.0, "outside 0..1", "use 0 to keep all tokens, 0.05 is usual"),
            ("repetition_penalty", 0.0 < self.repetition_penalty < math.inf, "not a number above 0",
             "use 1 for none, 1.1 is usual"),
        ):  # fmt: skip
            if not holds:
                raise SettingError(f"{name} {getattr(self, name)} is {fault}", remedy, setting=name)


def target_distribution(
    logits: Row,
    sampling: SamplingConfig,
    context: Sequence[int] = (),
    workspace: Workspace | None = None,
    use: Hashable = "row",
    allowed: npt.NDArray[np.bool_] | None = None,
) -> Distribution:
    """The distribution of one row of logits, shape [vocab].

    Args:
        logits: one row, any float dtype, which the weights keep; not read after this call.
        context: target ids before the row, for the repetition penalty.
        workspace: lends the distribution its memory.
        use: of that memory, see `Workspace.array`.
        allowed: whether each id may come at all, shape [vocab]; None allows all.

    Raises:
        LogitsError: `logits`; the largest logit, after the penalty, is not finite.
    """
    workspace = workspace or Workspace()
    if allowed is not None:
        masked = workspace.array(("masked", use), len(logits), logits.dtype)
        masked.fill(-np.inf)
        np.copyto(masked, logits, where=allowed)
        logits = masked
    if sampling.repetition_penalty != 1.0 and len(context):
        penalised = workspace.array(use, len(logits), logits.dtype)
        penalised[:] = logits
        _penalise(penalised, sampling.repetition_penalty, np.unique(np.asarray(context)))
        logits = penalised
    if sampling.temperature == 0.0:
        best = int(logits.argmax())  # of a NaN, where there is one
        _check_finite(logits[best], "target")
        return OneHot(best, len(logits))
    scaled = logits
    if sampling.temperature != 1.0:
        largest = logits.max()
        _check_finite(largest, "target")
        out = workspace.array(use, len(logits), logits.dtype)
        scaled = divided(logits, largest, sampling.temperature, out)
    weights = workspace.softmax(scaled)
    if sampling.top_k or sampling.top_p < 1.0:
        kept = _nucleus(weights, sampling)
        values = weights[kept]
        weights.fill(0.0)
        weights[kept] = values
    if sampling.min_p > 0.0:
        weights[weights < sampling.min_p * weights.max()] = 0.0
    distribution = Categorical(weights, workspace)
    if not distribution.is_sound:  # a pass over the logits for each row would find it sooner, at a cost
        _check_finite(scaled.max(), "target")
    return distribution


def scoring(sampling: SamplingConfig) -> SamplingConfig:
    """The settings whose distribution log-probabilities are of.

    Above temperature 0 they are the settings themselves. At temperature 0 the distribution is certain, so
    log-probabilities are of the softmax of the penalised logits.
    """
    if sampling.temperature > 0.0:
        return sampling
    return SamplingConfig(temperature=1.0, repetition_penalty=sampling.repetition_penalty)


class TargetProbs:
    """The target's distributions of one pass; each is computed when it is first asked for."""

    def __init__(
        self,
        logits: Logits,
        sampling: SamplingConfig,
        context: Sequence[int],
        workspace: Workspace | None = None,
        allowed: Callable[[int], npt.NDArray[np.bool_] | None] | None = None,
        certain: Sequence[int] = (),
    ) -> None:
        """
        Args:
            logits: [n + 1 - c, vocab], the last rows of a pass over the last token and n proposed ones.
            sampling: how a row becomes a distribution.
            context: target ids before the last row: all so far, and the n proposed ones.
            workspace: lends the distributions their memory: they live until the next round.
            allowed: whether each id may follow a row's tokens; None allows all.
            certain: the first c proposed tokens, which nothing else may replace; they have no row of logits.
        """
        self.logits, self._allowed, self._certain = logits, allowed or (lambda _: None), certain
        self._sampling, self._context = sampling, context
        self._workspace = workspace or Workspace()
        self._rows: dict[int, Distribution] = {}

    def __call__(self, row: int) -> Distribution:
        """The distribution of the token after `row` proposed tokens."""
        if row < len(self._certain):
            return OneHot(self._certain[row], self.logits.shape[1], draws=self._sampling.temperature > 0.0)
        if row not in self._rows:
            unpenalised = self._sampling.repetition_penalty == 1.0  # the usual case needs no copy
            at = row - len(self._certain)
            before = () if unpenalised else self._context[: len(self._context) - len(self.logits) + 1 + at]
            use = "row", row
            self._rows[row] = target_distribution(
                self.logits[at], self._sampling, before, self._workspace, use, self._allowed(row)
            )
        return self._rows[row]

    def logprobs(self, emitted: Sequence[int]) -> tuple[float, ...]:
        """Natural log-probability of each emitted token under its row; see `scoring` for temperature 0."""
        sampled = self._sampling.temperature > 0.0
        scored = scoring(self._sampling), self._context, self._workspace, self._allowed, self._certain
        rows = self if sampled else TargetProbs(self.logits, *scored)
        probabilities = [rows(i).probability(np.array([token]))[0] for i, token in enumerate(emitted)]
        return tuple(float(x) for x in np.log(probabilities))


def _penalise(logits: Row, penalty: float, ids: Ids) -> None:
    values = logits[ids]
    with np.errstate(over="ignore"):
        logits[ids] = np.where(values > 0.0, values / penalty, values * penalty)


def _nucleus(weights: Row, sampling: SamplingConfig) -> Ids:
    """Ids that top-k and then top-p keep, by falling weight."""
    if sampling.top_k:
        ids = _ranked(weights, sampling.top_k, 0.0)[: sampling.top_k]
        total = float(weights[ids].sum(dtype=np.float64))
    else:
        total = float(weights.sum(dtype=np.float64))
        ids = _ranked(weights, 1, sampling.top_p * total)
    if sampling.top_p == 1.0 or not len(ids):  # no weight is a number: the distribution is not sound
        return ids
    before = np.cumsum(np.append(0.0, weights[ids[:-1]]), dtype=np.float64)
    return ids[before < sampling.top_p * total]


def _ranked(weights: Row, count: int, mass: float) -> Ids:
    """At least the `count` heaviest ids and as many as hold `mass`, by falling weight, then by id.

    A few tokens hold nearly all mass, so only those above a floor are sorted. The floor is lowered until the
    ids above it are enough.
    """
    ids = np.arange(0)
    for floor in _FLOORS:
        ids = np.flatnonzero(weights >= floor)
        if len(ids) >= count and weights[ids].sum(dtype=np.float64) >= mass:
            break
    if mass == 0.0 and len(ids) > count:
        values = weights[ids]
        ids = ids[values >= np.partition(values, len(ids) - count)[len(ids) - count]]
    return ids[np.argsort(-weights[ids], kind="stable")]


def draft_distribution(
    logits: Row,
    temperature: float,
    banned: Ids,
    workspace: Workspace | None = None,
    use: Hashable = "draft",
    allowed: npt.NDArray[np.bool_] | None = None,
    confident: bool = False,
) -> Distribution:
    """The drafter's distribution of one row, shape [vocab], without the ids that it may not propose.

    Args:
        logits: one row, any float dtype, which the weights keep; not read after this call.
        temperature: 0 takes the argmax.
        workspace: lends the distribution its memory.
        use: of that memory, see `Workspace.array`.
        allowed: whether each id may be proposed; None for all that are not banned.
        confident: whether the confidence is computed at temperature 0; otherwise it is 1 there.

    Raises:
        LogitsError: the largest logit is not finite, or that of the ids that may be proposed.
    """
    best = int(logits.argmax())
    _check_finite(logits[best], "drafter")
    workspace = workspace or Workspace()
    row = workspace.array(use, len(logits), logits.dtype)
    if allowed is not None:
        row[:] = np.where(allowed, logits, -np.inf)
        logits, best = row, int(row.argmax())
        _check_finite(logits[best], "drafter")
    if (banned == best).any():  # relative to a banned logit the others might have no weight
        row[:] = logits
        row[banned] = -np.inf
        logits, best = row, int(row.argmax())
        _check_finite(logits[best], "drafter")
    if temperature == 0.0 and not confident:
        return OneHot(best, len(logits))
    weights = workspace.softmax(
        logits if temperature in (0.0, 1.0) else divided(logits, logits[best], temperature, row)
    )
    weights[banned] = 0.0
    if temperature == 0.0:
        return OneHot(best, len(logits), float(weights[best]) / float(weights.sum(dtype=np.float64)))
    return Categorical(weights, workspace)


def _check_finite(largest: float, role: str) -> None:
    if not math.isfinite(largest):
        raise LogitsError(
            f"the largest logit of the {role} is {largest}, so nothing can be drawn",
            "use another bundle, or no adapter",
            fault="logits",
        )


def check_temperature(temperature: float) -> float:
    """Refuse a temperature that is neither 0 nor large enough to divide float32 logits by.

    Raises:
        SettingError: naming the value.
    """
    if not math.isfinite(temperature) or temperature < 0.0:
        raise SettingError(
            f"temperature {temperature} is not a finite number >= 0",
            "use 0 for greedy decoding, 1 for the model's own distribution",
            setting="temperature",
        )
    if 0.0 < temperature < _COLDEST:
        raise SettingError(
            f"temperature {temperature} is below {_COLDEST}",
            "use 0 for greedy decoding",
            setting="temperature",
        )
    return temperature
