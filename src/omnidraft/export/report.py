"""What an export measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.export.adopt.adopt import Adoption
from omnidraft.export.quantize.parity import Acceptance, Parity, StepParity
from omnidraft.pair_verdict import EXPECTED, PairVerdict, estimated_speed, speed_verdict
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.text_quality import Quality

if TYPE_CHECKING:
    from omnidraft.export.choose.search import Trial


@dataclass(frozen=True)
class Report:
    """What an export measured."""

    path: Path  # the bundle
    bytes: int  # its size
    # parity with torch of each exported model, by role and form; the form is "fp32", the name of the
    # quantisation, or "npu-float" and "npu-qdq"
    parity: dict[str, dict[str, Parity]]
    before: Acceptance | None  # the drafter's acceptance with both models in float32; None without a drafter
    after: Acceptance | None  # the drafter's acceptance with both models as they ship; None without a drafter
    costs: Costs  # seconds of the passes on this machine
    # what was measured of each adopted graph, by role
    adopted: dict[str, Adoption] = field(default_factory=dict)
    limits: tuple[str, ...] = ()  # what memory did not allow to check in full, a sentence each
    # parity with torch of each training graph, by file name
    train: dict[str, StepParity] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # what is sound and yet not as a user will want it, a sentence each
    quantization: str = ""  # name of the target's
    vocabulary: str = ""  # whether the drafter can write the target's text; empty without a drafter
    # what the target's form costs in quality of text; None for an adopted graph
    quality: Quality | None = None
    # why the chat template has no place for a system prompt; None where it has one
    no_system: str | None = None
    # why tools have the generic form; None where the chat template has its own
    no_tools: str | None = None
    context: str = ""  # the length of the context, and why; a sentence
    # the forms of the target that were tried in torch; empty where the form was given
    trials: tuple[Trial, ...] = ()
    texts: tuple[Statistics, ...] = ()  # what the default mode did in built-in prompts of several kinds
    seconds: float = 0.0  # duration of the export
    # the most memory that the export had resident; None where the system does not count it
    peak_bytes: int | None = None

    @property
    def verdict(self) -> PairVerdict:
        """Whether the default mode is faster than plain decoding on this machine."""
        if not self.texts:
            return PairVerdict(True, "the context is too short to try the default mode")
        return speed_verdict(estimated_speed(self.texts, self.costs), EXPECTED, learns=self.after is not None)
