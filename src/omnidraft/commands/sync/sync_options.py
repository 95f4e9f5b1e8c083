"""Arguments of the commands of `omnidraft sync`, a bundle's pair of models, and releases as JSON."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from omnidraft.sync.record_lines import StoredFile
from omnidraft.sync.release import Release

if TYPE_CHECKING:
    from omnidraft.sync.device_pushes import ChannelPair
    from omnidraft.sync.store import TransferProgress

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
    from omnidraft.sync.device_pushes import ChannelPair

    opened = open_bundle(bundle, os.environ.get(options.PUBLIC_KEY) or None)
    pair = ChannelPair(opened, load_vocab_map(opened.file(opened.vocab_map)))
    check_unchanged(opened.places, opened.stamps)  # the map that was read is the one that was hashed
    return pair


@contextmanager
def transfer(what: str, quiet: bool) -> Iterator["TransferProgress"]:
    """Show on standard error how many bytes were transferred."""
    with output.progress_bar(what, quiet=quiet) as bar:
        yield bar.stage


def release_json(release: Release) -> dict[str, Any]:
    """A release as a JSON object."""

    def file(each: StoredFile | None) -> dict[str, Any] | None:
        return None if each is None else {"sha256": each.sha256, "bytes": each.size}

    return {
        "number": release.number,
        "created": release.created,
        "expires": release.expires,
        "adapter": file(release.adapter),
        "cache": file(release.cache),
        "accepted_tokens": release.accepted,
        "devices": release.devices,
    }
