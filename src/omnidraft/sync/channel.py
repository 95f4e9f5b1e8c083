"""Names in a store, and the channel of a bundle (spec/15-sync.md)."""

from datetime import datetime, timedelta, timezone

from omnidraft.errors import SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.record_lines import Channel

RECORD = "push"  # name of the record of a device, beside its files
LATEST = "latest"  # name of the newest release


def channel_of_bundle(bundle: Bundle, vocab_map: VocabMap) -> Channel:
    """The channel of a bundle's pair of models.

    Raises:
        SyncError: `no_fingerprint`.
    """
    base, target = bundle.drafter.fingerprint, bundle.target.fingerprint
    if base is None or target is None:
        role = "drafter" if base is None else "target"
        raise SyncError(
            f"{bundle.path} does not name the weights of its {role}, so nothing can be checked to fit it",
            "run `omnidraft export` again from the checkpoints",
            fault="no_fingerprint",
        )
    return Channel(base, target, vocab_map.draft_fingerprint, vocab_map.target_fingerprint)


def channel_folder(channel: Channel) -> str:
    """The folder of everything of a channel."""
    return f"channels/{channel.id}"


def devices_folder(channel: Channel) -> str:
    """The folder of all devices of a channel; each device has a folder with its name in it."""
    return f"channels/{channel.id}/devices"


def device_folder(channel: Channel, device: str) -> str:
    """The folder of one device: files named by their SHA-256, and the record."""
    return f"{devices_folder(channel)}/{device}"


def latest_name(channel: Channel) -> str:
    """The name of the newest release."""
    return f"channels/{channel.id}/{LATEST}"


def releases_folder(channel: Channel) -> str:
    """The folder of all releases that are kept, named by their numbers."""
    return f"channels/{channel.id}/releases"


def release_name(channel: Channel, number: int) -> str:
    """The name of one release."""
    return f"{releases_folder(channel)}/{number:015d}"


def files_folder(channel: Channel) -> str:
    """The folder of the files of releases, named by their SHA-256."""
    return f"channels/{channel.id}/files"


def utc(days: float = 0.0) -> str:
    """The time in `days` days from now in the form of records, ISO 8601 in UTC."""
    return (datetime.now(timezone.utc) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
