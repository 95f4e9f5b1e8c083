"""A channel: the pair of models whose devices share adapters and caches, and its names in a store."""

import hashlib
import re
from dataclasses import astuple, dataclass

from omnidraft.errors import SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.vocab.vocab_map import VocabMap

HASH = "[0-9a-f]{64}"
PUSH_END = ".push"
_CHANNEL = "base", "target", "draft_tokenizer", "target_tokenizer"
CHANNEL_LINES = "".join(f"{name} (?P<{name}>{HASH})\n" for name in _CHANNEL)


@dataclass(frozen=True)
class Channel:
    """A pair of models, whose devices can use each other's adapters and caches."""

    base: str
    target: str
    draft_tokenizer: str
    target_tokenizer: str

    @property
    def lines(self) -> str:
        """The lines of the channel."""
        return "".join(f"{name} {value}\n" for name, value in self.__dict__.items())

    @property
    def id(self) -> str:
        """Its folder in a store: SHA-256 of its lines, 64 hexadecimal digits."""
        return hashlib.sha256(self.lines.encode()).hexdigest()

    def check(self, channel: "Channel", what: str) -> None:
        """Refuse another channel (`foreign`); `what` names its owner in the message."""
        names = "drafter's weights", "target's weights", "drafter's tokenizer", "target's tokenizer"
        for name, ours, theirs in zip(names, astuple(self), astuple(channel), strict=True):
            if ours != theirs:
                raise SyncError(
                    f"{what} is of a {name} {theirs[:12]} and this bundle's is {ours[:12]}",
                    "use it with the pair of models that it was made for",
                    fault="foreign",
                )


@dataclass(frozen=True)
class ChannelPair:
    """The pair of models of a bundle."""

    bundle: Bundle
    vocab_map: VocabMap

    @property
    def channel(self) -> Channel:
        """Its channel.

        Raises:
            SyncError: `no_fingerprint`.
        """
        base, target = self.bundle.drafter.fingerprint, self.bundle.target.fingerprint
        if base is None or target is None:
            role = "drafter" if base is None else "target"
            raise SyncError(
                f"{self.bundle.path} does not name the weights of its {role}, so nothing can be checked to "
                "fit it",
                "run `omnidraft export` again from the checkpoints",
                fault="no_fingerprint",
            )
        return Channel(base, target, self.vocab_map.draft_fingerprint, self.vocab_map.target_fingerprint)


def channel_of(fields: re.Match[str]) -> Channel:
    """The channel in a text that matches `CHANNEL_LINES`."""
    return Channel(*fields.group(*_CHANNEL))


def release_name(channel: Channel) -> str:
    """The release of a channel in a store."""
    return f"{channel.id}/release"


def push_name(channel: Channel, key: str) -> str:
    """The push of a device in a store."""
    return f"{channel.id}/{key}{PUSH_END}"
