"""Copy the traces of devices from a store into a directory for training; every file is verified."""

from collections.abc import Sequence
from pathlib import Path

from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import decode
from omnidraft.sync.channel import device_folder
from omnidraft.sync.device_pushes import ChannelPair, sent_by_devices
from omnidraft.sync.installed import unwritable
from omnidraft.sync.push import TRACE
from omnidraft.sync.record_lines import StoredFile
from omnidraft.sync.store import Store, TransferProgress, short


def fetch(
    store: Store,
    pair: ChannelPair,
    into: Path,
    chosen: Sequence[str] = (),
    progress: TransferProgress | None = None,
) -> dict[str, int]:
    """Copy the traces of devices to `into/DEVICE/trace-NNNNNNNNNN.odt`; files that are present are not copied
    again.

    Args:
        store: to read from.
        pair: the pair of models of the channel.
        into: the directory, made if absent.
        chosen: names of devices; all devices when empty.
        progress: called after each chunk.

    Returns:
        the number of segments of each device; devices without segments are left out.

    Raises:
        SettingError: a chosen device sent nothing.
        SyncError: the store cannot be reached, a file in it is damaged, or `into` cannot be written.
        TraceFileError: a segment is refused, or is of another pair.
    """
    counts = {}
    for sent in sent_by_devices(store, pair, chosen):
        if sent.push is None or not sent.push.traces:
            continue
        folder = device_folder(pair.channel, sent.device)
        for name, file in sent.push.traces:
            try:
                _fetch(
                    store, pair, f"{folder}/{file.sha256}{TRACE}", file, into / sent.device / name, progress
                )
            except OSError as error:
                raise unwritable(into, error) from None
        counts[sent.device] = len(sent.push.traces)
    return counts


def _fetch(
    store: Store,
    pair: ChannelPair,
    name: str,
    file: StoredFile,
    place: Path,
    progress: TransferProgress | None,
) -> None:
    if _is_there(place, file):
        return
    data = store.read(name, file.size, progress, file.size)
    file.check(data, f"{short(name)} in {store.shown}")
    Vocabularies.of(pair.vocab_map).check(decode(data).header.vocabularies)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(place, data)


def _is_there(place: Path, file: StoredFile) -> bool:
    try:
        return StoredFile.of(read_whole(place, file.size)) == file
    except OSError:  # absent, or not that file
        return False
