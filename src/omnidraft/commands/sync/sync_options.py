"""Arguments of the commands of `omnidraft sync`, a bundle's pair of models, and records as JSON."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.terminal import options
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.vocab.vocab_map import load_vocab_map

if TYPE_CHECKING:
    from omnidraft.sync.channel import ChannelPair
    from omnidraft.sync.record import SignedRecord

BundlePath = Annotated[
    Path,
    typer.Argument(metavar="BUNDLE", help="A bundle of the pair of models.", readable=False),
]
StoreAddress = Annotated[
    str, typer.Argument(metavar="STORE", help="A folder, or a URL: s3://bucket/place, https://host/place.")
]
Json = options.Json


def open_pair(bundle: Path) -> "ChannelPair":
    """The pair of models of a bundle.

    Raises:
        BundleError, VocabMapError: the bundle is refused.
    """
    from omnidraft.sync.channel import ChannelPair

    opened = open_bundle(bundle, os.environ.get(options.PUBLIC_KEY) or None)
    pair = ChannelPair(opened, load_vocab_map(opened.file(opened.vocab_map)))
    check_unchanged(opened.places, opened.stamps)  # the map that was read is the one that was hashed
    return pair


def record_json(record: "SignedRecord") -> dict[str, Any]:
    """A record as a JSON object."""
    return {
        "key": record.key,
        "number": record.number,
        "expires": record.expires,
        "adapter_bytes": record.adapter.size if record.adapter else None,
        "cache_bytes": record.cache.size if record.cache else None,
        "traces": len(record.traces),
        "accepted_tokens": record.accepted,
    }
