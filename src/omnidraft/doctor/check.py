"""One finding of the doctor: what was looked at, whether it is well, and what to do where it is not."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """A finding.

    Attributes:
        found: one sentence. remedy: what to do, wherever the verdict is not ok.
        details: figures for programs.
    """

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.verdict == "ok" or self.remedy, f"{self.name} says what is wrong and not what to do"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
