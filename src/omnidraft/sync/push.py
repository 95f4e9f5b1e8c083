"""What a device shares: the files that its user named, in one file that the device signs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import SettingError, TraceFileError
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.models.adapter_file import encode_adapter, read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import MAX_SEGMENT_BYTES
from omnidraft.runtime.traces.trace_file import decode as decode_trace
from omnidraft.runtime.traces.trace_reader import segments_of
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.channel import ChannelPair
from omnidraft.sync.record import Contents, write_signed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True)
class PushItem:
    """A file to send, read and checked.

    Attributes:
        kind: adapter, cache or trace.
        tells: what a reader of the file learns about the user, in a few words.
    """

    kind: str
    source: Path
    data: bytes
    tells: str


def adapter_item(path: Path, pair: ChannelPair) -> PushItem:
    """The device's own adapter of the bundle's drafter; an `AdapterError` refuses it."""
    adapter = read_adapter(path)
    fit(adapter, pair.bundle, pair.vocab_map, "drafter")
    tells = "numbers learned from what was said here; they can confirm a guess of what was said often"
    return PushItem("adapter", path, encode_adapter(adapter), tells)


def cache_item(path: Path, vocab_map: VocabMap) -> PushItem:
    """The device's own n-grams; a `CacheFileError` refuses them."""
    tells = "which of the target's tokens, also whole words, were said here, and how often"
    return PushItem("cache", path, encode(read_table(path, vocab_map)), tells)


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
        data = read_whole(path, MAX_SEGMENT_BYTES)
        vocabularies.check(decode_trace(data).header.vocabularies)
    except OSError as error:
        raise TraceFileError(f"{path} cannot be read ({error.strerror})", fault="unreadable") from None
    except TraceFileError as error:
        raise TraceFileError(f"{path} is refused: {error}", "leave it out", fault=error.fault) from None
    return PushItem("trace", path, data, "EVERY PROMPT AND ANSWER in it, word for word")


def write_push(
    items: Sequence[PushItem], pair: ChannelPair, accepted: int, key: "Ed25519PrivateKey"
) -> bytes:
    """The file of a push.

    Raises:
        SettingError: there is nothing to send.
        SyncError: `too_large`, `no_fingerprint`.
    """
    if not items:
        raise SettingError("nothing is to be sent", "give --adapted, --cache or --traces")
    first = {item.kind: item.data for item in items}
    traces = [item.data for item in items if item.kind == "trace"]
    contents = Contents(first.get("adapter"), first.get("cache"), traces, accepted)
    return write_signed("push", pair.channel, contents, key)
