"""What devices sent: every file is read and verified, and a device whose files are refused is left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.errors import AdapterError, CacheFileError, SettingError, SyncError, shown
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import decode_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.cache_file import decode as decode_cache
from omnidraft.runtime.vocab.cache_table import CacheTable, check_against
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.average import check_values
from omnidraft.sync.channel import RECORD, channel_of_bundle, device_folder, devices_folder
from omnidraft.sync.installed import ADAPTER, CACHE
from omnidraft.sync.push_record import DEVICE, MOST_BYTES, Push, decode_push
from omnidraft.sync.record_lines import Channel, StoredFile
from omnidraft.sync.store import Store, TransferProgress, short

MOST_DEVICES = 10_000


@dataclass(frozen=True)
class Sent:
    """The files of a device, verified.

    Attributes:
        device: name of the device.
        push: its record; None where the record is refused.
        adapter: None where there is none, or a file is refused.
        cache: None likewise.
        refusal: why a file or the record is refused; None if nothing is.
    """

    device: str
    push: Push | None
    adapter: Adapter | None = None
    cache: CacheTable | None = None
    refusal: str | None = None


@dataclass(frozen=True)
class ChannelPair:
    """The pair of models of a bundle, for the training side."""

    bundle: Bundle
    vocab_map: VocabMap

    @property
    def channel(self) -> Channel:
        """The channel of the bundle."""
        return channel_of_bundle(self.bundle, self.vocab_map)


def sent_by_devices(
    store: Store, pair: ChannelPair, chosen: Sequence[str] = (), progress: TransferProgress | None = None
) -> list[Sent]:
    """Read the files of the devices of a channel. A device whose files are refused does not stop the others.

    Args:
        store: to read from.
        pair: the pair of models of the channel.
        chosen: names of devices; all devices when empty.
        progress: called after each chunk.

    Raises:
        SettingError: a chosen device sent nothing.
        SyncError: the store cannot be reached.
    """
    devices = store.names(devices_folder(pair.channel))
    if len(devices) > MOST_DEVICES:
        raise SyncError(
            f"{store.shown} has more than {MOST_DEVICES} devices",
            "choose some with --device",
            fault="too_large",
        )
    if absent := sorted(set(chosen) - set(devices)):
        raise SettingError(
            f"device {absent[0]} sent nothing for this pair of models to {store.shown}",
            f"those that did: {', '.join(devices[:20]) or 'none'}",
        )
    return [_sent(store, pair, name, progress) for name in devices if not chosen or name in chosen]


def _sent(store: Store, pair: ChannelPair, device: str, progress: TransferProgress | None) -> Sent:
    push, folder = None, device_folder(pair.channel, device)
    adapter, cache = None, None
    if not re.fullmatch(DEVICE, device):  # anyone who can write to the store chose it
        return Sent(shown(device)[:64], None, refusal="that is no name of a device")
    try:
        push = decode_push(store.read(f"{folder}/{RECORD}", MOST_BYTES))
        pair.channel.check(push.channel, f"the push of {device}")
        if push.device != device:
            raise SyncError(
                f"the push is of device {push.device}", f"let {device} push again", fault="foreign"
            )
        if push.adapter is not None:
            adapter = decode_adapter(verified_file(store, folder, push.adapter, ADAPTER, progress))
            fit(adapter, pair.bundle, pair.vocab_map, "drafter")
            check_values(adapter)
        if push.cache is not None:
            cache = decode_cache(verified_file(store, folder, push.cache, CACHE, progress))
            check_against(cache, pair.vocab_map)
    except (SyncError, AdapterError, CacheFileError) as error:
        if error.fault == "unreachable":
            raise
        return Sent(device, push, refusal=str(error))
    return Sent(device, push, adapter, cache)


def verified_file(
    store: Store, folder: str, file: StoredFile, suffix: str, progress: TransferProgress | None
) -> bytes:
    """The bytes of a file of a record.

    Raises:
        SyncError: `missing`, `too_large`, `size`, `checksum` or `unreachable`.
    """
    name = f"{folder}/{file.sha256}{suffix}"
    data = store.read(name, file.size, progress, file.size)
    file.check(data, f"{short(name)} in {store.shown}")
    return data
