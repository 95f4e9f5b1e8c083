"""The result of one check of the doctor: its name, a verdict, one sentence and a remedy."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from omnidraft.errors import counted

CheckVerdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str  # of the check
    verdict: CheckVerdict  # ok, warn or fail
    message: str  # one sentence
    remedy: str = ""  # what to do; not empty unless the verdict is ok
    details: dict[str, Any] = field(default_factory=dict)  # figures for programs

    def __post_init__(self) -> None:
        assert self.verdict == "ok" or self.remedy, f"{self.name} has no remedy"

    def as_json(self) -> dict[str, Any]:
        """The fields; the message has the name `found`."""
        values = asdict(self)
        return {"found" if name == "message" else name: value for name, value in values.items()}


DRAFTING = "drafting"  # name of the check that says whether the default mode is faster


def overall(checks: Sequence[Check]) -> str:
    """The verdict on all checks: the first failure with its remedy, or what works and whether it pays."""
    of_kind = {kind: [check for check in checks if check.verdict == kind] for kind in ("ok", "warn", "fail")}
    if failed := of_kind["fail"]:
        first = failed[0]
        more = f" (and {counted(len(failed) - 1, 'more failure')})" if len(failed) > 1 else ""
        return f"this does not work: {first.name}: {first.message}; {first.remedy}{more}"
    whole = any(check.name == "bundle" for check in checks)
    sentence = "this bundle runs on this machine" if whole else "this machine can run bundles"
    drafting = [check.message for check in checks if check.name == DRAFTING]
    others = [check.name for check in of_kind["warn"] if check.name != DRAFTING]
    if others:
        shown = f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}"
        sentence += f", with {counted(len(others), 'warning')} ({shown})"
    return "; ".join([sentence, *drafting])
