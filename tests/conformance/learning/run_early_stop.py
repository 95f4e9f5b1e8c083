"""Runner of `learner/stop`: a head that ends drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from conformance.given_uniforms import GivenUniforms
from conformance.vectors import Vector, close
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter


@dataclass
class TableDrafter:
    """A drafter whose logits and head output depend on the last token only."""

    table: list[list[float]]
    head: list[float]
    context: list[int] = field(default_factory=list)
    reads: int = 0
    acceptance: float = 1.0
    max_length: int = 64

    @property
    def length(self) -> int:
        return len(self.context)

    @property
    def vocab_size(self) -> int:
        return len(self.table)

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> npt.NDArray[np.float64]:
        self.reads += 1
        self.context += tokens
        self.acceptance = self.head[tokens[-1]]
        return np.array([self.table[token] for token in tokens])[-(num_logits or len(tokens)) :]

    def rewind(self, length: int) -> None:
        del self.context[length:]


class RecordingLength(FixedLength):
    """A fixed length that records the probabilities it is asked with."""

    def __init__(self, num_draft_tokens: int, head_threshold: float) -> None:
        super().__init__(num_draft_tokens, head_threshold)
        self.asked: list[float] = []

    def more(self, drawn: int, survival: float) -> int:
        self.asked.append(survival)
        return super().more(drawn, survival)


def run_early_stop(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    model, random = TableDrafter(given["table"], given["acceptance"]), GivenUniforms(given["uniforms"])
    length = RecordingLength(given["count"], given["threshold"])
    banned = np.array(given["banned"], dtype=np.int64)
    draft = Drafter(model).propose(
        [given["last"]], given["count"], length, given["temperature"], banned, random
    )
    random.finish()
    assert (draft.tokens, model.reads) == (expect["tokens"], expect["reads"])
    assert len(length.asked) == len(expect["asked"]) and close(length.asked, expect["asked"])
