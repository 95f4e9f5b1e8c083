"""`omnidraft sync push`: send learned files to a store, after a table of what they reveal."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.sync.sync_options import BundlePath, Json, StoreAddress, open_pair, record_json
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.open_session import existing, learned_of, tell
from omnidraft.commands.terminal.output import Table
from omnidraft.commands.terminal.stop_signals import tells_when_interrupted
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import read_curve

if TYPE_CHECKING:
    from omnidraft.sync.channel import ChannelPair
    from omnidraft.sync.push import PushItem


@tells_when_interrupted(
    lambda _: "the store has the last push or this one, whole; the same command repeats it"
)
def push_command(
    bundle: BundlePath,
    store: StoreAddress,
    adapted: Annotated[
        Path | None,
        typer.Option(
            metavar="PLACE",
            help="Send the files of `omnidraft learn --prompts --out PLACE` for this bundle's target: its "
            "adapter, its n-grams and its count of accepted tokens. Its answers are not sent.",
            readable=False,
        ),
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Send these learned n-grams.", readable=False)] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            help="Send the recordings in this directory: every prompt and answer, word for word.",
            readable=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Send this device's own adapter and n-grams, or its traces, in one file that the device signs.

    A table first lists the files and what they reveal about you; they are sent with --yes, or when you agree.
    They replace what this device sent before. The device's key is made at the first push; its public half is
    the device's identity, which a publisher lists to accept it.
    """
    from omnidraft.signing import raw_public
    from omnidraft.sync import push
    from omnidraft.sync.channel import push_name
    from omnidraft.sync.device_key import device_key
    from omnidraft.sync.record import read_signed
    from omnidraft.sync.store import open_store

    if adapted is not None and cache is not None:
        raise SettingError(f"--adapted {adapted} brings its own n-grams", "leave out --cache or --adapted")
    pair, accepted, items = open_pair(bundle), 0, []
    if adapted is not None:
        adapter, cache, accepted = _learned(adapted, pair)
        items += [] if adapter is None else [push.adapter_item(adapter, pair)]
    items += [] if cache is None else [push.cache_item(cache, pair.vocab_map)]
    items += [] if traces is None else push.trace_items(traces, pair.vocab_map)
    place, key = open_store(store), device_key()
    data = push.write_push(items, pair, accepted, key)
    record = read_signed(data, "push", raw_public(key)).record
    if not (as_json and yes):
        _show_push(items, record.key, accepted, place.shown)
    if not yes:
        _confirm()
    place.write(push_name(pair.channel, record.key), data, private=True)
    if as_json:
        return options.print_json(record_json(record))
    print(f"{place.shown}: {counted(len(items), 'file')} sent, {len(data):,} bytes")
    print(f"this device is {record.key}; a publisher that lists this key accepts it")


def _learned(place: Path, pair: "ChannelPair") -> tuple[Path | None, Path, int]:
    """The adapter (None if there is none), the cache and the accepted tokens of an adaptation's target."""
    profile = learned_of(place, pair.bundle)
    progress, name = profile.progress(), profile.directory.name
    # Answers after the last checkpoint are given again when the adaptation goes on, and would count twice.
    lines = read_curve(place / CURVE)[: progress.answered if progress else 0]
    accepted = sum(max(0, line.tokens - line.passes) for line in lines if line.target == name)
    adapter = existing(profile.adapter)
    if adapter is None:
        tell([f"{place} has no adapter of this target, only n-grams"])
    return adapter, profile.cache, accepted


def _show_push(items: "Sequence[PushItem]", key: str, accepted: int, store: str) -> None:
    """Print the table of a push: its files, and what each reveals."""
    table = Table(title=f"to {store}")
    for column in ("what", "file", "bytes", "what it reveals about you"):
        table.add_column(column, justify="right" if column == "bytes" else "left", overflow="fold")
    for item in items:
        table.add_row(item.kind, str(item.source), f"{len(item.data):,}", item.tells)
    tells = f"the sizes above, {accepted:,} accepted tokens, the time, which models (by hash)"
    table.add_row("record", "", "", tells)
    tells = f"the key {key[:12]}: a reader can tell by it which pushes are of one device"
    table.add_row("identity", "", "", tells)
    output.err.print(table)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise SettingError("nothing was sent", "add --yes to send what the table lists")
    try:
        if not typer.confirm("Send this?", err=True):
            raise SettingError("nothing was sent")
    except typer.Abort:  # Ctrl-C, or the end of the input
        sys.stderr.write("omnidraft: stopped; nothing was sent\n")
        raise typer.Exit(130) from None
