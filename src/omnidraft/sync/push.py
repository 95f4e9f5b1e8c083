"""What a device sends: its own adapter and cache, or its traces, and nothing else; the record goes last.

Files are named by their SHA-256, so a push that was broken off goes on where it was, and until the record is
there nobody sees any of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from omnidraft.sync.release import LARGEST, MAX_FILE, Channel, StoredFile
from omnidraft.sync.store import Progress, Store

TRACE = SUFFIX


@dataclass(frozen=True)
class Item:
    """A file to be sent, as it was read and checked.

    Attributes:
        kind: adapter, cache or trace. source: where it was.
        tells: what whoever reads it learns of the user, in a few words.
        accepted: of a segment, target tokens that were proposed and accepted in it.
    """

    kind: str
    source: Path
    data: bytes
    tells: str
    accepted: int = 0

    @property
    def file(self) -> StoredFile:
        """What names it."""
        return StoredFile.of(self.data)

    @property
    def stored_name(self) -> str:
        """Its name in the device's folder."""
        return self.file.sha256 + {"adapter": ADAPTER, "cache": CACHE, "trace": TRACE}[self.kind]


@dataclass(frozen=True)
class Pushed:
    """What a push did: files and bytes that were sent, and that were there already."""

    sent: int
    sent_bytes: int
    present: int


def adapter_item(path: Path, bundle: Bundle, vocab_map: VocabMap) -> Item:
    """The device's own adapter, of the bundle's drafter.

    Raises:
        AdapterError: it is refused.
    """
    adapter = read_adapter(path)
    fit(adapter, bundle, vocab_map, "drafter")
    return Item(
        "adapter", path, encode_adapter(adapter), "numbers that the drafter learned from what was said here"
    )


def cache_item(path: Path, vocab_map: VocabMap) -> Item:
    """The device's own n-grams.

    Raises:
        CacheFileError: they are refused.
    """
    table = read_table(path, vocab_map)
    return Item(
        "cache", path, encode(table), "which of the target's tokens were said here, and how often; no text"
    )


def trace_items(place: Path, vocab_map: VocabMap) -> list[Item]:
    """The segments of a trace.

    Raises:
        TraceFileError: one is refused, or there is none.
    """
    if not place.is_dir() or not (segments := segments_of(place)):
        raise TraceFileError(f"{place} holds no trace", "check the path", fault="not_a_trace")
    wanted = Vocabularies.of(vocab_map)
    return [_segment(path, wanted) for path in segments]


def _segment(path: Path, wanted: Vocabularies) -> Item:
    try:
        data = path.read_bytes()
        segment = decode_trace(data)
        wanted.check(segment.header.vocabularies)
    except OSError as error:
        raise TraceFileError(f"{path} cannot be read ({error.strerror})", fault="unreadable") from None
    except TraceFileError as error:
        raise TraceFileError(f"{path} is refused: {error}", "leave it out", fault=error.fault) from None
    tokens = (token for record in segment.generations() for token in record.tokens)
    accepted = sum(token.accepted for token in tokens)
    return Item("trace", path, data, "EVERY PROMPT AND ANSWER in it, word for word", accepted)


def push_of(items: Sequence[Item], device: str, channel: Channel, accepted: int | None, now: str) -> Push:
    """The record of a push.

    Args:
        accepted: tokens that the device's drafts were accepted for; counted in its traces when None.

    Raises:
        SettingError: nothing to send, a file too large, or an adapter without a weight.
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
                "--adapted with the directory of an `omnidraft adapt`, which has "
                "them",
            )
        accepted = sum(item.accepted for item in items)
    if not 0 <= accepted <= LARGEST:
        raise SettingError(f"--accepted-tokens {accepted} is outside 0..{LARGEST}", "give what was counted")
    traces = tuple((item.source.name, item.file) for item in items if item.kind == "trace")
    return Push(device, channel, now, accepted, by_kind.get("adapter"), by_kind.get("cache"), traces)


def missing(store: Store, push: Push, items: Sequence[Item]) -> list[Item]:
    """What the store has not yet of a push.

    Raises:
        SyncError: it cannot be reached.
    """
    folder = device_folder(push.channel, push.device)
    names = set(store.names(folder))
    return [
        item
        for item in items
        if item.stored_name not in names or store.size(f"{folder}/{item.stored_name}") != len(item.data)
    ]


def push(store: Store, record: Push, items: Sequence[Item], progress: Progress | None = None) -> Pushed:
    """Send what is missing, then the record, then remove what the device sent before and no longer names.

    Raises:
        SyncError: `read_only`, `unreachable`.
    """
    folder = device_folder(record.channel, record.device)
    due = missing(store, record, items)
    whole, done = sum(len(item.data) for item in due), 0
    for item in due:
        store.write(f"{folder}/{item.stored_name}", item.data)
        done += len(item.data)
        if progress:
            progress(item.source.name, done, whole)
    if due or not _same(read_push(store, record.channel, record.device), record):
        store.write(f"{folder}/{RECORD}", encode_push(record))
    named = {item.stored_name for item in items} | {RECORD}
    for name in store.names(folder):
        if name not in named:
            store.delete(f"{folder}/{name}")
    return Pushed(len(due), whole, len(items) - len(due))


def withdraw(store: Store, channel: Channel, device: str) -> int:
    """Remove all that a device ever sent, its record first; return how many files went.

    Raises:
        SyncError: `read_only`, `unreachable`.
    """
    folder = device_folder(channel, device)
    names = store.names(folder)
    for name in sorted(names, key=lambda name: name != RECORD):
        store.delete(f"{folder}/{name}")
    return len(names)


def read_push(store: Store, channel: Channel, device: str) -> Push | None:
    """What the store has of a device; None where that is nothing, or no record.

    Raises:
        SyncError: it cannot be reached.
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
    """Whether a record says what another does, but for the time."""
    return old is not None and replace(old, created=new.created) == new
