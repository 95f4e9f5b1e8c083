"""The lines that a release and the record of a device have in common: a channel, files, numbers, times."""

import hashlib
import re
from dataclasses import dataclass

from omnidraft import defaults
from omnidraft.errors import SyncError

MAX_FILE = defaults.SYNC_MAX_FILE_BYTES  # bytes of an adapter, a cache or a segment
NUMBER = "[1-9][0-9]{0,14}"
LARGEST = 10**15 - 1
COUNT = f"(?:0|{NUMBER})"
HASH = "[0-9a-f]{64}"
TIME = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
FILE = f"(?:{HASH} {NUMBER}|none)"
CHANNEL_LINES = "".join(
    f"{name} (?P<{name}>{HASH})\n" for name in ("base", "target", "draft_tokenizer", "target_tokenizer")
)


@dataclass(frozen=True)
class Channel:
    """A pair of models. Devices of one channel can use each other's adapters and caches.

    Attributes:
        base: fingerprint of the drafter's checkpoint, to which adapters are added.
        target: fingerprint of the target's checkpoint.
        draft_tokenizer: fingerprint of the drafter's tokenizer.
        target_tokenizer: fingerprint of the target's tokenizer.
    """

    base: str
    target: str
    draft_tokenizer: str
    target_tokenizer: str

    @property
    def lines(self) -> str:
        """The lines of the channel in records."""
        return "".join(f"{name} {value}\n" for name, value in self.__dict__.items())

    @property
    def id(self) -> str:
        """Its name in a store: SHA-256 of its lines, 64 hexadecimal digits."""
        return hashlib.sha256(self.lines.encode()).hexdigest()

    def check(self, channel: "Channel", what: str) -> None:
        """Refuse another channel.

        Args:
            channel: of a file or record.
            what: the file or record, for the message.

        Raises:
            SyncError: `foreign`.
        """
        for name, ours, theirs in (
            ("drafter's weights", self.base, channel.base),
            ("target's weights", self.target, channel.target),
            ("drafter's tokenizer", self.draft_tokenizer, channel.draft_tokenizer),
            ("target's tokenizer", self.target_tokenizer, channel.target_tokenizer),
        ):
            if ours != theirs:
                raise SyncError(
                    f"{what} is of a {name} {theirs[:12]} and this bundle's is {ours[:12]}",
                    "use it with the pair of models that it was made for",
                    fault="foreign",
                )


@dataclass(frozen=True)
class StoredFile:
    """A file in a record.

    Attributes:
        sha256: in hexadecimal digits.
        size: in bytes.
    """

    sha256: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> "StoredFile":
        """The entry of these bytes."""
        return cls(hashlib.sha256(data).hexdigest(), len(data))

    @classmethod
    def read(cls, text: str) -> "StoredFile | None":
        """Parse the form in a record, `HASH BYTES` or `none`."""
        sha256, _, size = text.partition(" ")
        return None if text == "none" else cls(sha256, int(size))

    def __str__(self) -> str:
        return f"{self.sha256} {self.size}"

    def check(self, data: bytes, what: str) -> None:
        """Refuse bytes of another size or hash.

        Args:
            data: the bytes that were read.
            what: the file, for the message.

        Raises:
            SyncError: `size` or `checksum`.
        """
        if len(data) != self.size:
            raise SyncError(
                f"{what} has {len(data)} bytes where {self.size} were announced",
                "try again, or ask who put it there",
                fault="size",
            )
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise SyncError(
                f"{what} is damaged (its SHA-256 is not {self.sha256[:12]})",
                "try again, or ask who put it there",
                fault="checksum",
            )


def channel_of(fields: re.Match[str]) -> Channel:
    """The channel in a record that matches `CHANNEL_LINES`."""
    return Channel(*(fields[name] for name in ("base", "target", "draft_tokenizer", "target_tokenizer")))
