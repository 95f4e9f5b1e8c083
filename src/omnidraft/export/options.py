"""How to export, and what an export measured: the values that go in and come out."""

from dataclasses import dataclass
from pathlib import Path

from omnidraft.export.parity import Acceptance, Parity
from omnidraft.export.quantize import FP32, Quantization
from omnidraft.export.write import EXTERNAL_ABOVE
from omnidraft.runtime.draft_length import Costs


@dataclass(frozen=True)
class Options:
    """How to export.

    Attributes:
        quantization: of the target.
        drafter_quantization: of the drafter; the target's when None.
        max_length: KV positions; the models' own limit, at most MAX_LENGTH, when None.
        overwrite: replace a bundle that is there.
        external_above: bytes of weights above which a graph gets a file of its own for them.
        pairs: control tokens that mean the same to both models, each as `DRAFTER=TARGET`.
        check_memory: bytes of float32 weights that the checks may hold; what is free here when None.
    """

    quantization: Quantization = FP32
    drafter_quantization: Quantization | None = None
    max_length: int | None = None
    overwrite: bool = False
    external_above: int = EXTERNAL_ABOVE
    pairs: tuple[str, ...] = ()
    check_memory: int | None = None

    def quantization_of(self, role: str) -> Quantization:
        """What a model of the pair is stored as."""
        return self.quantization if role == "target" else self.drafter_quantization or self.quantization

    @property
    def name(self) -> str:
        """The quantisation of the pair, for people."""
        target, drafter = self.quantization_of("target").name, self.quantization_of("drafter").name
        return target if target == drafter else f"{target} with an {drafter} drafter"


DEFAULTS = Options()


@dataclass(frozen=True)
class Report:
    """What an export measured.

    Attributes:
        parity: of each model's graph in float32 and as shipped, against torch.
        before, after: the drafter's acceptance with both models in float32, and as shipped.
        limits: what was checked less than wholly for want of memory, a sentence each.
        seconds: that the export took. peak_bytes: the most memory it had resident; None where nobody counts.
    """

    path: Path
    bytes: int
    parity: dict[str, dict[str, Parity]]
    before: Acceptance
    after: Acceptance
    costs: Costs
    limits: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: int | None = None
