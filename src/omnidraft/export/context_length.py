"""The contexts of a pair: how many positions each model gets, and one sentence that says why.

The target's context bounds the text. The drafter's bounds only what the drafter reads: its window slides
(spec/04-speculation.md, section 3), so a drafter of few positions takes none from the target.
"""

from dataclasses import dataclass

from omnidraft import defaults
from omnidraft.errors import ExportError
from omnidraft.export.model_export import ModelExport

MAX_LENGTH = defaults.CONTEXT_MAX_LENGTH  # positions of the target by default, at most
MAX_KV_BYTES = defaults.CONTEXT_MAX_KV_BYTES  # of its keys and values by default, at most ...
SURE_LENGTH = defaults.CONTEXT_SURE_LENGTH  # ... but no fewer positions than these, where the target has them
MIN_LENGTH = 32  # the checks need room for a prompt and a block


@dataclass(frozen=True)
class ContextLengths:
    """Positions of the two models of a bundle.

    Attributes:
        target: positions of the target, the length of a text with its prompt.
        drafter: positions of the drafter, which reads the end of a longer text; None without a drafter.
        limit: positions that the target supports.
        kv_bytes: bytes of the target's keys and values at the full length.
        asked: whether the caller chose the length.
        half_kv: whether the keys and values are float16.
    """

    target: int
    drafter: int | None
    limit: int
    kv_bytes: int
    asked: bool = False
    half_kv: bool = False

    def of(self, role: str) -> int:
        """Positions of one model of the pair."""
        length = self.target if role == "target" else self.drafter
        assert length is not None, "a bundle without a drafter has no length of it"
        return length

    def __str__(self) -> str:
        """The context, why it has this length, and what the drafter reads of it."""
        kind = "float16 " if self.half_kv else ""
        full = f"{kind}keys and values of up to {self.kv_bytes / 1e6:,.0f} MB"
        if self.target == self.limit:
            chosen = f"{self.target:,} tokens, the target's own ({full})"
        else:
            chosen = f"{self.target:,} of the target's {self.limit:,} tokens ({full})"
            chosen += ", as asked" if self.asked else "; --max-length takes more, and more memory"
        reads = ""
        if self.drafter not in (None, self.target):
            reads = f"; the drafter reads its last {self.drafter:,} tokens"
        return f"context: {chosen}{reads}"


def context_lengths(
    target: ModelExport, drafter: ModelExport | None, asked: int | None, *, half_kv: bool = False
) -> ContextLengths:
    """Choose the positions of a pair.

    Args:
        target, drafter: the models as they were read; None without a drafter.
        asked: positions of the target; None for its own, as far as MAX_LENGTH and MAX_KV_BYTES allow.
        half_kv: whether the target's keys and values are float16.

    Raises:
        ExportError: the target has not as many positions, or a model has too few; the remedy names the range.
    """
    for model in (target, drafter) if drafter else (target,):
        name, positions = model.checkpoint.name, model.checkpoint.shape.max_positions
        if positions < MIN_LENGTH:
            raise ExportError(
                f"{name} has {positions} positions, and the checks need {MIN_LENGTH}",
                "give another checkpoint",
            )
    limit, per_position = target.checkpoint.shape.max_positions, _kv_bytes(target, half_kv)
    usual = min(limit, MAX_LENGTH, max(SURE_LENGTH, MAX_KV_BYTES // per_position))
    length = usual if asked is None else asked
    if not MIN_LENGTH <= length <= limit:
        raise ExportError(
            f"a context of {length} positions does not fit {target.checkpoint.name}",
            f"give {MIN_LENGTH} to {limit}",
        )
    reads = None if drafter is None else min(length, drafter.checkpoint.shape.max_positions)
    return ContextLengths(length, reads, limit, length * per_position, asked is not None, half_kv)


def _kv_bytes(model: ModelExport, half: bool) -> int:
    """Bytes of the keys and values of one position; layout `concat` has two buffers for each."""
    shape = model.checkpoint.shape
    buffers = 1 if model.layout == "shared" else 2
    return (4 if half else 8) * buffers * shape.num_layers * shape.num_kv_heads * shape.head_dim
