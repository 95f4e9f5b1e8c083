"""What did not fail and a program should know (spec/08-phones.md, Notices)."""

from dataclasses import dataclass
from typing import Literal

NoticeKind = Literal["no_drafter", "on_cpu", "empty_cache", "other_adapter"]


@dataclass(frozen=True)
class Notice:
    """What did not fail and a program should know.

    Attributes:
        kind: what happened. "empty_cache": the file of n-grams was refused; "other_adapter": the session that
            was loaded was saved with another adapter of the drafter. The others are of Kotlin and Swift.
        message: the same in one sentence with the values, then what to do about it.
    """

    kind: NoticeKind
    message: str
