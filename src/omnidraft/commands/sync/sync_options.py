"""What the commands of `omnidraft sync` share: their arguments, and a bundle's pair of models."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.terminal import options
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.vocab.vocab_map import load_vocab_map
from omnidraft.sync.release import Release, StoredFile

if TYPE_CHECKING:
    from omnidraft.sync.publish import ChannelPair
    from omnidraft.sync.store import Progress

BundlePath = Annotated[
    Path,
    typer.Argument(metavar="BUNDLE", help="The bundle whose pair of models this is for.", readable=False),
]
StoreAddress = Annotated[
    str, typer.Argument(metavar="STORE", help="A folder, or a URL: s3://bucket/place, https://host/place.")
]
Json = options.Json


def open_pair(bundle: Path) -> "ChannelPair":
    """The pair of models of a bundle.

    Raises:
        BundleError, VocabMapError: the bundle is not what it must be.
    """
    from omnidraft.sync.publish import ChannelPair

    opened = open_bundle(bundle, os.environ.get(options.PUBLIC_KEY) or None)
    return ChannelPair(opened, load_vocab_map(opened.file(opened.vocab_map)))


@contextmanager
def transfer(what: str, quiet: bool) -> Iterator["Progress"]:
    """How many bytes were moved, on standard error."""
    from omnidraft.commands.terminal import output

    with output.progress_bar(what, quiet=quiet) as bar:
        yield bar.stage


def release_json(release: Release) -> dict[str, Any]:
    """A release for programs."""

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
