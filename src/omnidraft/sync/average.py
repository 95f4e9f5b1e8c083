"""The weighted average of LoRA adapters, computed on the products A B and not on the factors.

The mean of A times the mean of B is not the mean of A B. Concatenated factors, [A1 A2] [w1 B1; w2 B2], are
the weighted mean exactly, with the sum of the ranks. A singular value decomposition gives the nearest product
of any smaller rank (Eckart and Young, 1936).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError, SyncError
from omnidraft.runtime.bundle.lora_sites import MAX_RANK
from omnidraft.runtime.models.adapter import Adapter, Floats

Matrix = npt.NDArray[np.float64]
MOST_VALUE = 1e4  # of one number of an adapter; trained ones are below 10
MOST_SHARE = 4  # of one device's weight, in median weights
MOST_NORM, ABSURD_NORM = 5.0, 50.0  # of one adapter's size, in median sizes
_ROUNDING = 1e-7  # share of the largest singular value; smaller values are rounding of float32


@dataclass(frozen=True)
class AveragedAdapter:
    """A mean of adapters.

    Attributes:
        lost: error of the smaller rank as a share of the mean (Frobenius norms), 0 to 1.
    """

    adapter: Adapter
    lost: float


def average(
    adapters: Sequence[Adapter], weights: Sequence[float], created: str, rank: int | None = None
) -> AveragedAdapter:
    """The weighted mean of adapters of one base.

    Args:
        weights: one for each adapter, not negative; their sum need not be 1.
        rank: at each site at most; the largest rank of the adapters at that site when None.

    Raises:
        SettingError: there are no adapters, they have different bases, or the weights are not valid.
        AdapterError: the mean is not a valid adapter (a value overflows).
    """
    shares = _shares(adapters, weights)
    first, sites = adapters[0], sorted({site for each in adapters for site in each.tensors})
    if rank is not None and not 1 <= rank <= MAX_RANK:
        raise SettingError(f"rank {rank} is outside 1..{MAX_RANK}", "8 to 32 are usual", setting="rank")
    tensors, whole, left = {}, 0.0, 0.0
    for site in sites:
        parts = [(s, *each.tensors[site]) for s, each in zip(shares, adapters, strict=True)
                 if site in each.tensors]  # fmt: skip
        most = max(len(b) for _, _, b in parts) if rank is None else rank
        tensors[site], values = _mean(parts, min(most, MAX_RANK))
        whole += float((values**2).sum())
        left += float((values[min(most, MAX_RANK) :] ** 2).sum())
    mean = Adapter(first.base, first.draft_tokenizer, first.target_tokenizer, tensors, created)
    return AveragedAdapter(mean, float(np.sqrt(left / whole)) if whole > 0.0 else 0.0)


def size(adapter: Adapter) -> float:
    """The Frobenius norm over all products A B of an adapter."""
    return float(np.sqrt(sum((_factored([(1.0, a, b)])[1] ** 2).sum() for a, b in adapter.tensors.values())))


def check_values(adapter: Adapter) -> None:
    """Refuse an adapter with numbers that no training gives; a mean of them is no drafter, or no number.

    Raises:
        SyncError: `too_large`.
    """
    largest = max(float(np.abs(tensor).max()) for tensor in adapter.named.values())
    if largest > MOST_VALUE:
        raise SyncError(
            f"its adapter has numbers up to {largest:.3g}, more than {MOST_VALUE:g}",
            "leave it out",
            fault="too_large",
        )


def bounded_share(accepted: Mapping[str, int]) -> dict[str, int]:
    """Accepted tokens by device, none more than `MOST_SHARE` times the lower median of those above 0."""
    counts = sorted(count for count in accepted.values() if count > 0)
    if not counts:
        return dict(accepted)
    most = MOST_SHARE * counts[(len(counts) - 1) // 2]
    return {name: min(count, most) for name, count in accepted.items()}


def bounded_norms(adapters: Mapping[str, Adapter]) -> tuple[dict[str, Adapter], dict[str, str]]:
    """Adapters whose products are of a usual size, and why others are left out, by name of the device.

    The usual size is the lower median. An adapter above `MOST_NORM` times that is scaled down to it, and with
    three adapters or more one above `ABSURD_NORM` times that is left out.
    """
    norms = {name: size(adapter) for name, adapter in adapters.items()}
    known = sorted(norm for norm in norms.values() if norm > 0.0)
    usual = known[(len(known) - 1) // 2] if known else 0.0
    kept, left_out = {}, {}
    for name, adapter in adapters.items():
        times = norms[name] / usual if usual > 0.0 else 0.0
        if times > ABSURD_NORM and len(adapters) >= 3:
            left_out[name] = f"its adapter is {times:.3g} times as large as a usual one here"
        else:
            kept[name] = adapter if times <= MOST_NORM else _scaled(adapter, MOST_NORM / times)
    return kept, left_out


def usual_rank(adapters: Sequence[Adapter], weights: Sequence[float]) -> int | None:
    """The smallest rank that adapters of at least half of the weight do not exceed; None without a site."""
    total, sum_so_far = sum(weights), 0.0
    for rank, weight in sorted((each.rank, weight) for each, weight in zip(adapters, weights, strict=True)):
        sum_so_far += weight
        if 2 * sum_so_far >= total and rank > 0:
            return rank
    return None


def _scaled(adapter: Adapter, factor: float) -> Adapter:
    return replace(
        adapter,
        tensors={site: (a, (b * factor).astype(np.float32)) for site, (a, b) in adapter.tensors.items()},
    )


def _shares(adapters: Sequence[Adapter], weights: Sequence[float]) -> Matrix:
    values = np.asarray(weights, dtype=np.float64)
    if (
        not adapters
        or values.shape != (len(adapters),)
        or not (values >= 0).all()
        or not 0 < values.sum() < np.inf
    ):
        raise SettingError(
            f"{len(adapters)} adapters cannot be averaged by the weights {list(weights)!s:.80}",
            "give one or more, each with its accepted tokens, and not all of them 0",
        )
    kinds = {(each.base, each.draft_tokenizer, each.target_tokenizer) for each in adapters}
    if len(kinds) > 1:
        raise SettingError(
            f"the adapters are of {len(kinds)} different bases or pairs of tokenizers", "average those of one"
        )
    shares: Matrix = values / values.sum()
    return shares


def _mean(parts: Sequence[tuple[float, Floats, Floats]], rank: int) -> tuple[tuple[Floats, Floats], Matrix]:
    """The factors of the mean, and all singular values of the mean."""
    (left, right), values = _factored(parts)
    kept = max(1, min(rank, int((values > _ROUNDING * values[0]).sum())))
    scale = np.sqrt(values[:kept])
    a, b = left[:, :kept] * scale, scale[:, None] * right[:kept]
    with np.errstate(over="ignore"):  # `Adapter` refuses infinite values
        return (np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)), values


def _factored(parts: Sequence[tuple[float, Floats, Floats]]) -> tuple[tuple[Matrix, Matrix], Matrix]:
    """The singular value decomposition of sum_i w_i A_i B_i, without computing that product."""
    a = np.concatenate([each for _, each, _ in parts], axis=1, dtype=np.float64)  # [in, sum of ranks]
    b = np.concatenate([w * each.astype(np.float64) for w, _, each in parts])  # [sum of ranks, out]
    qa, ra = np.linalg.qr(a)
    qb, rb = np.linalg.qr(b.T)
    u, values, v = np.linalg.svd(ra @ rb.T, full_matrices=False)
    return (qa @ u, v @ qb.T), values
