"""Send a device's own adapter, cache and traces to a store; the record goes last.

Files are named by their SHA-256, so an interrupted push continues where it stopped. Readers see the files of
a push only after its record is written.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError, SyncError, TraceFileError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter_file import encode_adapter, read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import decode as decode_trace
from omnidraft.runtime.traces.trace_reader import SUFFIX, segments_of
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.channel import RECORD, device_folder
from omnidraft.sync.installed import ADAPTER, CACHE
from omnidraft.sync.push_record import MOST_BYTES, Push, decode_push, encode_push
from omnidraft.sync.push_record import check_device as check_device
from omnidraft.sync.record_lines import LARGEST, MAX_FILE, Channel, StoredFile
from omnidraft.sync.store import Store, TransferProgress

TRACE = SUFFIX


@dataclass(frozen=True)
class PushItem:
    """A file to send, read and checked.

    Attributes:
        kind: adapter, cache or trace.
        source: path of the file.
        data: its bytes.
        tells: what a reader of the file learns about the user, in a few words.
        accepted: target tokens that were proposed and accepted in a segment; 0 for other files.
    """

    kind: str
    source: Path
    data: bytes
    tells: str
    accepted: int = 0

    @property
    def file(self) -> StoredFile:
        """The entry of the file in a record."""
        return StoredFile.of(self.data)

    @property
    def stored_name(self) -> str:
        """The name in the device's folder."""
        return self.file.sha256 + {"adapter": ADAPTER, "cache": CACHE, "trace": TRACE}[self.kind]


@dataclass(frozen=True)
class Pushed:
    """The result of a push.

    Attributes:
        sent: files that were sent.
        sent_bytes: their bytes.
        present: files that the store had already.
    """

    sent: int
    sent_bytes: int
    present: int


def adapter_item(path: Path, bundle: Bundle, vocab_map: VocabMap) -> PushItem:
    """The device's own adapter of the bundle's drafter.

    Raises:
        AdapterError: the adapter is refused.
    """
    adapter = read_adapter(path)
    fit(adapter, bundle, vocab_map, "drafter")
    return PushItem(
        "adapter", path, encode_adapter(adapter), "numbers that the drafter learned from what was said here"
    )


def cache_item(path: Path, vocab_map: VocabMap) -> PushItem:
    """The device's own n-grams.

    Raises:
        CacheFileError: the cache is refused.
    """
    table = read_table(path, vocab_map)
    return PushItem(
        "cache", path, encode(table), "which of the target's tokens were said here, and how often; no text"
    )


def trace_items(place: Path, vocab_map: VocabMap) -> list[PushItem]:
    """The segments of a trace.

    Raises:
        TraceFileError: a segment is refused, or there is none.
    """
    if not place.is_dir() or not (segments := segments_of(place)):
        raise TraceFileError(f"{place} holds no trace", "check the path", fault="not_a_trace")
    vocabularies = Vocabularies.of(vocab_map)
    return [_segment(path, vocabularies) for path in segments]


def _segment(path: Path, vocabularies: Vocabularies) -> PushItem:
    try:
        data = path.read_bytes()
        segment = decode_trace(data)
        vocabularies.check(segment.header.vocabularies)
    except OSError as error:
        raise TraceFileError(f"{path} cannot be read ({error.strerror})", fault="unreadable") from None
    except TraceFileError as error:
        raise TraceFileError(f"{path} is refused: {error}", "leave it out", fault=error.fault) from None
    tokens = (token for record in segment.generations() for token in record.tokens)
    accepted = sum(token.accepted for token in tokens)
    return PushItem("trace", path, data, "EVERY PROMPT AND ANSWER in it, word for word", accepted)


def push_of(items: Sequence[PushItem], device: str, channel: Channel, accepted: int | None, now: str) -> Push:
    """The record of a push.

    Args:
        items: to send.
        device: name of the device.
        channel: of the bundle.
        accepted: target tokens that the device's drafts proposed and the target accepted; counted in the
            traces when None.
        now: ISO 8601 in UTC.

    Raises:
        SettingError: there is nothing to send, a file is too large, or an adapter has no weight.
    """
    if not items:
        raise SettingError("nothing is to be sent", "give --adapter, --cache, --adapted or --traces")
    for item in items:
        if len(item.data) > MAX_FILE:
            raise SettingError(
                f"{item.source} has {len(item.data)} bytes, more than {MAX_FILE}", "leave it out"
            )
    by_kind = {item.kind: item.file for item in items}
    if accepted is None:
        if "adapter" in by_kind and "trace" not in by_kind:
            raise SettingError(
                "an adapter is averaged by the tokens that its drafts were accepted for",
                "give --accepted-tokens, which `omnidraft trace inspect` counts, or "
                "--adapted with the directory of an `omnidraft adapt`, which has them",
            )
        accepted = sum(item.accepted for item in items)
    if not 0 <= accepted <= LARGEST:
        raise SettingError(f"--accepted-tokens {accepted} is outside 0..{LARGEST}", "give what was counted")
    traces = tuple((item.source.name, item.file) for item in items if item.kind == "trace")
    return Push(device, channel, now, accepted, by_kind.get("adapter"), by_kind.get("cache"), traces)


def missing(store: Store, push: Push, items: Sequence[PushItem]) -> list[PushItem]:
    """The files of a push that the store does not have.

    Raises:
        SyncError: the store cannot be reached.
    """
    folder = device_folder(push.channel, push.device)
    names = set(store.names(folder))
    return [
        item
        for item in items
        if item.stored_name not in names or store.size(f"{folder}/{item.stored_name}") != len(item.data)
    ]


def check_owner(store: Store, push: Push, replace: bool) -> None:
    """Refuse a push under a name that was used before, because it could be another device's.

    Args:
        store: to push to.
        push: the record.
        replace: this device used the name before.

    Raises:
        SyncError: `taken`, or the store cannot be reached.
    """
    before = None if replace else read_push(store, push.channel, push.device)
    if before is not None and not _same(before, push):
        raise SyncError(
            f"device {push.device} sent other files to {store.shown} at {before.created}",
            "add --replace if that was this device, or choose another name",
            fault="taken",
        )


def push(
    store: Store, record: Push, items: Sequence[PushItem], progress: TransferProgress | None = None
) -> Pushed:
    """Send the missing files, then the record; then remove earlier files that the record does not name.

    Raises:
        SyncError: `read_only`, `unreachable`.
    """
    folder = device_folder(record.channel, record.device)
    due = missing(store, record, items)
    total, done = sum(len(item.data) for item in due), 0
    for item in due:
        store.write(f"{folder}/{item.stored_name}", item.data, private=True)
        done += len(item.data)
        if progress:
            progress(item.source.name, done, total)
    if due or not _same(read_push(store, record.channel, record.device), record):
        store.write(f"{folder}/{RECORD}", encode_push(record), private=True)
    named = {item.stored_name for item in items} | {RECORD}
    for name in store.names(folder):
        if name not in named:
            store.delete(f"{folder}/{name}")
    return Pushed(len(due), total, len(items) - len(due))


def withdraw(store: Store, channel: Channel, device: str) -> int:
    """Remove all files of a device, the record first.

    Returns:
        the number of files that were removed.

    Raises:
        SyncError: `read_only`, `unreachable`.
    """
    folder = device_folder(channel, device)
    names = store.names(folder)
    for name in sorted(names, key=lambda name: name != RECORD):
        store.delete(f"{folder}/{name}")
    return len(names)


def read_push(store: Store, channel: Channel, device: str) -> Push | None:
    """The record of a device; None where there is none, or an invalid one.

    Raises:
        SyncError: the store cannot be reached.
    """
    name = f"{device_folder(channel, device)}/{RECORD}"
    if store.size(name) is None:
        return None
    try:
        return decode_push(store.read(name, MOST_BYTES))
    except SyncError as error:
        if error.fault == "unreachable":
            raise
        return None


def _same(old: Push | None, new: Push) -> bool:
    """Whether two records differ in the time alone."""
    return old is not None and dataclasses.replace(old, created=new.created) == new
