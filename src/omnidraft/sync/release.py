"""A release: an adapter and a cache that the training side published for a pair of models (spec/15-sync.md).

The file is a signature (spec/10-signing.md) over the lines that follow it. A release has exactly one form in
bytes, and the reader refuses every other input with a named fault.
"""

import hashlib
import re
from dataclasses import dataclass

from omnidraft import defaults
from omnidraft.errors import SignatureError, SyncError
from omnidraft.runtime.bundle.signature import FILE_BYTES, Signature, decode, encode, fault_of, key_id
from omnidraft.sync.record_lines import (
    CHANNEL_LINES,
    COUNT,
    FILE,
    MAX_FILE,
    NUMBER,
    TIME,
    Channel,
    StoredFile,
    channel_of,
)

VERSION = 1
MOST_BYTES = defaults.SYNC_MAX_RELEASE_BYTES  # of the file of a release; the longest possible has 819
_TITLE = "omnidraft.release "
_FORM = re.compile(
    f"{re.escape(_TITLE)}{VERSION}\nnumber (?P<number>{NUMBER})\n{CHANNEL_LINES}"
    f"created (?P<created>{TIME})\nexpires (?P<expires>{TIME})\n"
    f"adapter (?P<adapter>{FILE})\ncache (?P<cache>{FILE})\n"
    f"accepted (?P<accepted>{COUNT})\ndevices (?P<devices>{COUNT})\n"
)


@dataclass(frozen=True)
class Release:
    """The lines of a release.

    Attributes:
        number: higher than that of every earlier release.
        channel: the pair of models.
        created: ISO 8601 in UTC.
        expires: ISO 8601 in UTC; a device refuses the release after it, so that a store cannot hold back
            newer ones.
        adapter: of the drafter; None for none.
        cache: n-grams; None for none. A release has an adapter, a cache or both.
        accepted: accepted tokens, the weights of the average; 0 where the adapter was trained.
        devices: that took part.
    """

    number: int
    channel: Channel
    created: str
    expires: str
    adapter: StoredFile | None
    cache: StoredFile | None
    accepted: int = 0
    devices: int = 0

    @property
    def text(self) -> bytes:
        """The signed lines."""
        return (
            f"{_TITLE}{VERSION}\nnumber {self.number}\n{self.channel.lines}"
            f"created {self.created}\nexpires {self.expires}\n"
            f"adapter {self.adapter or 'none'}\ncache {self.cache or 'none'}\n"
            f"accepted {self.accepted}\ndevices {self.devices}\n"
        ).encode()


def encode_release(release: Release, signature: Signature) -> bytes:
    """The file of a release."""
    return encode(signature) + release.text


def decode_release(data: bytes, public_key: bytes | None) -> tuple[Release, str | None]:
    """The release in a file, and the id of the key that its signature was checked with.

    Args:
        public_key: 32 bytes; None leaves the signature unchecked.

    Raises:
        SyncError: `too_large`, `malformed`, `other_key`, `wrong_signature`, `not_a_release`, `version`.
        SettingError: checking needs a package that is not installed.
    """
    if len(data) > MOST_BYTES:
        raise SyncError(
            f"the release has more than {MOST_BYTES} bytes",
            "ask its publisher for another",
            fault="too_large",
        )
    try:
        signature = decode(data[:FILE_BYTES])
    except SignatureError:
        raise SyncError(
            "the release does not begin with a signature", "ask its publisher for another", fault="malformed"
        ) from None
    text = data[FILE_BYTES:]
    if public_key is not None:  # before its content is used
        _check_signature(text, signature, public_key)
    return parse_release(text), None if public_key is None else signature.key_id


def _check_signature(text: bytes, signature: Signature, public_key: bytes) -> None:
    fault = fault_of(text, signature, public_key)
    if fault == "other_key":
        raise SyncError(
            f"the release was signed with key {signature.key_id} and the public "
            f"key given is {key_id(public_key)}",
            "give its signer's key, or do not use this store",
            fault=fault,
        )
    if fault is not None:
        raise SyncError(
            "the release was changed after it was signed",
            "do not use this store, and tell its owner",
            fault=fault,
        )


def parse_release(text: bytes) -> Release:
    """Parse the signed lines of a release.

    Raises:
        SyncError: `not_a_release`, `version`, `malformed`.
    """
    line, _, _ = text.partition(b"\n")
    if not line.startswith(_TITLE.encode()):
        raise SyncError(
            "the file is not a release", "give a store that `omnidraft sync` wrote", fault="not_a_release"
        )
    if line != f"{_TITLE}{VERSION}".encode():
        shown = line[len(_TITLE) : len(_TITLE) + 20].decode("ascii", "replace")
        raise SyncError(
            f"the release has format version {shown} and this omnidraft reads {VERSION}",
            "update omnidraft",
            fault="version",
        )
    fields = _FORM.fullmatch(text.decode("latin-1"))  # latin-1 maps every byte to one character
    if fields is None or (fields["adapter"], fields["cache"]) == ("none", "none"):
        raise SyncError(
            "the release is not written as spec/15-sync.md says",
            "ask its publisher for another",
            fault="malformed",
        )
    adapter, cache = (StoredFile.read(fields[name]) for name in ("adapter", "cache"))
    if max(file.size for file in (adapter, cache) if file) > MAX_FILE:
        raise SyncError(
            f"the release has a file of more than {MAX_FILE} bytes",
            "ask for a smaller one",
            fault="too_large",
        )
    return Release(
        number=int(fields["number"]),
        channel=channel_of(fields),
        created=fields["created"],
        expires=fields["expires"],
        adapter=adapter,
        cache=cache,
        accepted=int(fields["accepted"]),
        devices=int(fields["devices"]),
    )


@dataclass(frozen=True)
class Seen:
    """The newest release that a device verified.

    Attributes:
        number: of the release.
        sha256: of its signed lines.
    """

    number: int
    sha256: str


def check_release(release: Release, channel: Channel, seen: Seen | None, now: str) -> None:
    """Refuse a release that a device must not take.

    Args:
        release: from `decode_release`.
        channel: of the device's bundle.
        seen: the newest release that the device verified; None before the first.
        now: ISO 8601 in UTC.

    Raises:
        SyncError: `foreign`, `older`, `conflict` or `expired`.
    """
    channel.check(release.channel, f"release {release.number}")
    if seen is not None and release.number < seen.number:
        raise SyncError(
            f"the store offers release {release.number} and this device has "
            f"seen {seen.number}: an old release was put back, or the publisher began again",
            f"do not use this store before its publisher made a newer one (publish --after {seen.number})",
            fault="older",
        )
    if (
        seen is not None
        and release.number == seen.number
        and hashlib.sha256(release.text).hexdigest() != seen.sha256
    ):
        raise SyncError(
            f"the store's release {release.number} is not the one that this "
            "device has seen under that number",
            "tell its publisher, who has to publish the next number",
            fault="conflict",
        )
    if release.expires < now:
        raise SyncError(
            f"release {release.number} was valid until {release.expires} and it is {now}",
            "check this machine's clock, or ask its publisher for a new one",
            fault="expired",
        )
