"""The result of one check of the doctor: its name, a verdict, one sentence and a remedy."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

CheckVerdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: of the check.
        verdict: ok, warn or fail.
        message: one sentence.
        remedy: what to do; not empty unless the verdict is ok.
        details: figures for programs.
    """

    name: str
    verdict: CheckVerdict
    message: str
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.verdict == "ok" or self.remedy, f"{self.name} has no remedy"

    def as_json(self) -> dict[str, Any]:
        """The fields; the message has the name `found`."""
        values = asdict(self)
        return {"found" if name == "message" else name: value for name, value in values.items()}
