"""The signed file of a push or a release: a signature, lines that name the files, and the files.

Format and faults: spec/15-sync.md. A file has exactly one form in bytes; every other input is refused.
"""

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from omnidraft import defaults
from omnidraft.errors import SignatureError, SyncError
from omnidraft.runtime.bundle.signature import FILE_BYTES, decode, encode, fault_of, key_id
from omnidraft.signing import raw_public, sign
from omnidraft.sync.channel import CHANNEL_LINES, HASH, Channel, channel_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Kind = Literal["push", "release"]
VERSION = 1
MOST_BYTES = defaults.SYNC_MAX_BYTES  # of a whole file
MOST_TEXT = defaults.SYNC_MAX_TEXT_BYTES  # of its lines
MOST_HEAD = FILE_BYTES + MOST_TEXT
DAYS = float(defaults.SYNC_DAYS)  # until a push or a release expires
LARGEST = 10**15 - 1
NUMBER = "[1-9][0-9]{0,14}"
COUNT = f"(?:0|{NUMBER})"
_TIME = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
_FILE = f"(?:{HASH} {NUMBER}|none)"
_FORM = re.compile(
    f"omnidraft\\.(?P<kind>push|release) {VERSION}\nkey (?P<key>{HASH})\n{CHANNEL_LINES}"
    f"number (?P<number>{NUMBER})\nexpires (?P<expires>{_TIME})\naccepted (?P<accepted>{COUNT})\n"
    f"adapter (?P<adapter>{_FILE})\ncache (?P<cache>{_FILE})\n(?P<traces>(?:trace {HASH} {NUMBER}\n)*)\n"
)


@dataclass(frozen=True)
class StoredFile:
    """A file by its SHA-256 in hexadecimal digits and its size in bytes."""

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


@dataclass(frozen=True)
class SignedRecord:
    """The signed lines.

    Attributes:
        key: the signer's public key, 64 hexadecimal digits; of a push, the identity of the device.
        number: higher than that of every earlier record of this key; the seconds since 1970, or one more.
        expires: ISO 8601 in UTC; it is refused after that.
        accepted: target tokens that drafts proposed and the target accepted; the weight of the adapter.
        traces: segments, the oldest first; of a push alone.
    """

    kind: Kind
    key: str
    channel: Channel
    number: int
    expires: str
    accepted: int = 0
    adapter: StoredFile | None = None
    cache: StoredFile | None = None
    traces: tuple[StoredFile, ...] = ()

    @property
    def text(self) -> bytes:
        """The signed bytes."""
        traces = "".join(f"trace {each}\n" for each in self.traces)
        return (
            f"omnidraft.{self.kind} {VERSION}\nkey {self.key}\n{self.channel.lines}"
            f"number {self.number}\nexpires {self.expires}\naccepted {self.accepted}\n"
            f"adapter {self.adapter or 'none'}\ncache {self.cache or 'none'}\n{traces}\n"
        ).encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the signed bytes."""
        return hashlib.sha256(self.text).hexdigest()

    @property
    def files(self) -> list[StoredFile]:
        """The files in the order of their bytes."""
        return [each for each in (self.adapter, self.cache, *self.traces) if each]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return FILE_BYTES + len(self.text) + sum(each.size for each in self.files)


@dataclass(frozen=True)
class Signed:
    """A verified file: its record, and the bytes of the files that it names."""

    record: SignedRecord
    adapter: bytes | None
    cache: bytes | None
    traces: tuple[bytes, ...]


@dataclass(frozen=True)
class Contents:
    """What is to be signed; see `SignedRecord`."""

    adapter: bytes | None = None
    cache: bytes | None = None
    traces: Sequence[bytes] = ()
    accepted: int = 0


def write_signed(
    kind: Kind, channel: Channel, contents: Contents, key: "Ed25519PrivateKey", after: int = 0
) -> bytes:
    """Sign contents as a new record.

    Args:
        contents: at least one file.
        after: the number of the record before it.

    Raises:
        SyncError: `too_large`, or `malformed` where there is no file.
    """
    adapter, cache = (None if d is None else StoredFile.of(d) for d in (contents.adapter, contents.cache))
    record = SignedRecord(
        kind, raw_public(key).hex(), channel, min(max(after + 1, int(time.time())), LARGEST), utc(DAYS),
        min(max(contents.accepted, 0), LARGEST), adapter, cache,
        tuple(StoredFile.of(each) for each in contents.traces),
    )  # fmt: skip
    parts = [contents.adapter or b"", contents.cache or b"", *contents.traces]
    data = b"".join([encode(sign(record.text, key)), record.text, *parts])
    read_signed(data, kind, raw_public(key))  # what a reader would refuse is not written
    return data


def read_head(data: bytes, kind: Kind, public_key: bytes | None) -> SignedRecord:
    """The record at the beginning of a file, its signature verified.

    Args:
        data: at least the first `MOST_HEAD` bytes, or all.
        public_key: that must have signed it, 32 bytes; None takes the key that the record names.

    Raises:
        SyncError: `malformed`, `other_kind`, `version`, `too_large`, `other_key` or `wrong_signature`.
        SettingError: `cryptography` is not installed.
    """
    text, end, _ = data[FILE_BYTES:MOST_HEAD].partition(b"\n\n")
    try:
        signature = decode(data[:FILE_BYTES])
    except SignatureError:
        raise _malformed(kind, "does not begin with a signature") from None
    record = parse(text + end, kind)
    if public_key is not None and record.key != public_key.hex():
        raise SyncError(
            f"the {kind} was signed with key {key_id(bytes.fromhex(record.key))} and the public key given is "
            f"{key_id(public_key)}",
            "give its signer's key, or do not use this store",
            fault="other_key",
        )
    if fault_of(record.text, signature, bytes.fromhex(record.key)) is not None:
        raise SyncError(
            f"the {kind} was changed after it was signed",
            "do not use this store, and tell its owner",
            fault="wrong_signature",
        )
    return record


def read_signed(data: bytes, kind: Kind, public_key: bytes | None) -> Signed:
    """A whole file, verified.

    Raises:
        SyncError: as `read_head`; also `size` and `checksum`.
        SettingError: `cryptography` is not installed.
    """
    record = read_head(data[:MOST_HEAD], kind, public_key)
    if len(data) != record.size:
        raise SyncError(
            f"the {kind} has {len(data)} bytes where {record.size} were announced",
            "try again, or ask who put it there",
            fault="size",
        )
    at, parts = FILE_BYTES + len(record.text), []
    for file in record.files:
        part = data[at : at + file.size]
        at += file.size
        if StoredFile.of(part) != file:
            raise SyncError(
                f"the {kind} is damaged (the SHA-256 of a file is not {file.sha256[:12]})",
                "try again, or ask who put it there",
                fault="checksum",
            )
        parts.append(part)
    adapter = parts.pop(0) if record.adapter else None
    cache = parts.pop(0) if record.cache else None
    return Signed(record, adapter, cache, tuple(parts))


def parse(text: bytes, kind: Kind) -> SignedRecord:
    """The record of the signed lines, not verified; errors are those of `read_head`."""
    line = text[:40].partition(b"\n")[0]
    title, _, version = line.rpartition(b" ")
    if title != f"omnidraft.{kind}".encode():
        raise SyncError(f"the file is not a {kind}", "give what `omnidraft sync` wrote", fault="other_kind")
    if version != str(VERSION).encode():
        raise SyncError(f"the {kind} has another format version", "update omnidraft", fault="version")
    fields = _FORM.fullmatch(text.decode("latin-1"))  # latin-1 maps every byte to one character
    if fields is None:
        raise _malformed(kind, "is not written as spec/15-sync.md says")
    traces = [StoredFile.read(each[6:]) for each in fields["traces"].splitlines()]
    record = SignedRecord(
        kind, fields["key"], channel_of(fields), int(fields["number"]), fields["expires"],
        int(fields["accepted"]), StoredFile.read(fields["adapter"]), StoredFile.read(fields["cache"]),
        tuple(each for each in traces if each),
    )  # fmt: skip
    if not record.files or (kind == "release" and record.traces):
        raise _malformed(kind, "has no files" if not record.files else "has traces")
    if record.size > MOST_BYTES:
        raise SyncError(f"the {kind} has more than {MOST_BYTES} bytes", "leave files out", fault="too_large")
    return record


def _malformed(kind: Kind, why: str) -> SyncError:
    return SyncError(f"the {kind} {why}", "ask its writer for another", fault="malformed")


def utc(days: float = 0.0) -> str:
    """The time in `days` days from now, ISO 8601 in UTC."""
    return (datetime.now(timezone.utc) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_current(record: SignedRecord, channel: Channel, now: str | None = None) -> None:
    """Refuse a record of other models (`foreign`) or one that has expired (`expired`)."""
    channel.check(record.channel, f"the {record.kind}")
    now = now or utc()
    if record.expires < now:
        raise SyncError(
            f"the {record.kind} was valid until {record.expires} and it is {now}",
            "check this machine's clock, or ask for a new one",
            fault="expired",
        )
