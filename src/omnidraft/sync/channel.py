"""Where things lie in a store, and what a bundle's channel is. spec/sync.md."""

from datetime import datetime, timedelta, timezone

from omnidraft.errors import SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sync.release import Channel

RECORD = "push"  # of a device, among its files
LATEST = "latest"  # the newest release


def channel_of_bundle(bundle: Bundle, vocab_map: VocabMap) -> Channel:
    """The channel of a bundle's pair of models.

    Raises:
        SyncError: `no_fingerprint`.
    """
    base, target = bundle.drafter.fingerprint, bundle.target.fingerprint
    if base is None or target is None:
        who = "drafter" if base is None else "target"
        raise SyncError(
            f"{bundle.path} does not say which weights its {who} has, so nothing can be known to fit it",
            "run `omnidraft export` again from the checkpoints",
            fault="no_fingerprint",
        )
    return Channel(base, target, vocab_map.draft_fingerprint, vocab_map.target_fingerprint)


def devices_folder(channel: Channel) -> str:
    """Of all devices of a channel; each has a folder of its own name in it."""
    return f"channels/{channel.id}/devices"


def device_folder(channel: Channel, device: str) -> str:
    """Of one device: its files by their SHA-256, and its record."""
    return f"{devices_folder(channel)}/{device}"


def latest_name(channel: Channel) -> str:
    """Of the newest release."""
    return f"channels/{channel.id}/{LATEST}"


def releases_folder(channel: Channel) -> str:
    """Of all releases that are kept, by their numbers."""
    return f"channels/{channel.id}/releases"


def release_name(channel: Channel, number: int) -> str:
    """Of one release."""
    return f"{releases_folder(channel)}/{number:015d}"


def files_folder(channel: Channel) -> str:
    """Of the files that releases name, by their SHA-256."""
    return f"channels/{channel.id}/files"


def utc(days: float = 0.0) -> str:
    """Now, or so many days later, as records have it."""
    return (datetime.now(timezone.utc) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
