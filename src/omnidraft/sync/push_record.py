"""The record of a device in a store: a short text that names all its files (spec/15-sync.md).

A record has exactly one form in bytes, and the reader refuses every other input with a named fault.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from omnidraft import defaults
from omnidraft.errors import SettingError, SyncError
from omnidraft.sync.record_lines import (
    CHANNEL_LINES,
    COUNT,
    FILE,
    HASH,
    MAX_FILE,
    NUMBER,
    TIME,
    Channel,
    StoredFile,
    channel_of,
)

VERSION = 1
MOST_BYTES = defaults.SYNC_MAX_PUSH_BYTES
DEVICE = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_TITLE = "omnidraft.push "
_SEGMENT = rf"trace-[0-9]{{10}}\.odt {HASH} {NUMBER}"
_FORM = re.compile(
    f"{re.escape(_TITLE)}{VERSION}\ndevice (?P<device>{DEVICE})\n{CHANNEL_LINES}"
    f"created (?P<created>{TIME})\naccepted (?P<accepted>{COUNT})\n"
    f"adapter (?P<adapter>{FILE})\ncache (?P<cache>{FILE})\n"
    f"(?P<traces>(?:trace {_SEGMENT}\n)*)"
)


@dataclass(frozen=True)
class Push:
    """The files of a device in a store.

    Attributes:
        device: name of the device.
        channel: the pair of models.
        created: ISO 8601 in UTC.
        accepted: target tokens that the device's drafts proposed and the target accepted; the weight of its
            adapter.
        adapter: the device's own; None for none.
        cache: the device's own; None for none.
        traces: name and file of each segment, by ascending name.
    """

    device: str
    channel: Channel
    created: str
    accepted: int
    adapter: StoredFile | None = None
    cache: StoredFile | None = None
    traces: tuple[tuple[str, StoredFile], ...] = ()


def check_device(name: str) -> str:
    """The name, if it is a valid name of a device.

    Raises:
        SettingError: the name is not valid.
    """
    if not re.fullmatch(DEVICE, name):
        raise SettingError(
            f"device name {name!r:.80} is not 1 to 64 letters, digits, dots, "
            "hyphens and underscores that begin with a letter or digit",
            "give another one",
        )
    return name


def encode_push(push: Push) -> bytes:
    """The bytes of a record."""
    return (
        f"{_TITLE}{VERSION}\ndevice {push.device}\n{push.channel.lines}"
        f"created {push.created}\naccepted {push.accepted}\n"
        f"adapter {push.adapter or 'none'}\ncache {push.cache or 'none'}\n"
        + "".join(f"trace {name} {file}\n" for name, file in push.traces)
    ).encode()


def decode_push(data: bytes) -> Push:
    """Parse the bytes of a record.

    Raises:
        SyncError: `not_a_push`, `version`, `malformed` or `too_large`.
    """
    line, _, _ = data[: len(_TITLE) + 20].partition(b"\n")
    if not line.startswith(_TITLE.encode()):
        raise SyncError(
            "the file is not the record of a push", "let the device push again", fault="not_a_push"
        )
    if line != f"{_TITLE}{VERSION}".encode():
        raise SyncError("the push has a later format", "update omnidraft", fault="version")
    fields = _FORM.fullmatch(data.decode("latin-1")) if len(data) <= MOST_BYTES else None
    if fields is None:
        raise SyncError(
            "the push is not written as spec/15-sync.md says", "let the device push again", fault="malformed"
        )
    traces = tuple(_segment(line) for line in fields["traces"].splitlines())
    if any(a >= b for (a, _), (b, _) in pairwise(traces)):
        raise SyncError(
            "the push names its traces out of order", "let the device push again", fault="malformed"
        )
    adapter, cache = (StoredFile.read(fields[name]) for name in ("adapter", "cache"))
    sizes = [file.size for file in (adapter, cache, *(file for _, file in traces)) if file]
    if max(sizes, default=0) > MAX_FILE:
        raise SyncError(
            f"the push has a file of more than {MAX_FILE} bytes", "leave it out", fault="too_large"
        )
    accepted = int(fields["accepted"])
    return Push(fields["device"], channel_of(fields), fields["created"], accepted, adapter, cache, traces)


def _segment(line: str) -> tuple[str, StoredFile]:
    _, name, sha256, size = line.split(" ")
    return name, StoredFile(sha256, int(size))
