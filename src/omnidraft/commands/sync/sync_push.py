"""`omnidraft sync push`: what a device sends, listed first with what it tells of its user."""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from omnidraft.commands.sync.sync_options import BundlePath, Json, StoreAddress, open_pair, transfer
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.open_session import existing, learned_of
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import read_curve

if TYPE_CHECKING:
    from omnidraft.sync.publish import ChannelPair


@tells_when_interrupted(lambda _: "a push is seen once it is whole, and the same command goes on with it")
def push_command(
    bundle: BundlePath,
    store: StoreAddress,
    adapter: Annotated[
        Path | None, typer.Option("--adapter", help="Send this adapter of the drafter.", readable=False)
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Send these learned n-grams.", readable=False)
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            help="Send what was recorded in this directory: every prompt and answer, word for word.",
            readable=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="A name that the store knows this device by (default: a random one)."),
    ] = None,
    accepted_tokens: Annotated[
        int | None,
        typer.Option(
            "--accepted-tokens",
            help="Weight of the adapter in averages: the target's tokens that its drafts were accepted for "
            "(default: counted in --adapted or --traces).",
        ),
    ] = None,
    adapted: Annotated[
        Path | None,
        typer.Option(
            "--adapted",
            metavar="PLACE",
            help="Send what `omnidraft adapt --out PLACE` learned of this bundle's target: its adapter, its "
            "n-grams and the accepted tokens that it counted; its answers stay here.",
            readable=False,
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Send what the table lists without asking.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send this device's own adapter and n-grams, or its traces, to a store. Nothing else is ever sent.

    What goes is listed first, with what it tells of you, and goes with --yes or when you say so. It takes the
    place of what this device sent before. A push that was broken off is invisible; the next goes on with it.
    """
    from omnidraft.sync import push
    from omnidraft.sync.channel import utc
    from omnidraft.sync.store import open_store

    if adapted is not None and (adapter or cache or accepted_tokens is not None):
        raise SettingError(
            f"--adapted {adapted} brings its own adapter, cache and accepted tokens",
            "leave out --adapter, --cache and --accepted-tokens, or --adapted",
        )
    pair = open_pair(bundle)
    if adapted is not None:
        adapter, cache, accepted_tokens = _learned(adapted, pair)
    name = push.check_device(secrets.token_hex(8) if device is None else device)
    items = [] if adapter is None else [push.adapter_item(adapter, pair.bundle, pair.vocab_map)]
    items += [] if cache is None else [push.cache_item(cache, pair.vocab_map)]
    items += [] if traces is None else push.trace_items(traces, pair.vocab_map)
    record = push.push_of(items, name, pair.channel, accepted_tokens, utc())
    place = open_store(store)
    due = push.missing(place, record, items)
    if not (as_json and yes):
        _show_push(record, items, due, place.shown)
    if not yes:
        _confirm()
    with transfer("push", as_json) as progress:
        done = push.push(place, record, items, progress)
    if as_json:
        return options.print_json(
            {
                "device": name,
                "channel": pair.channel.id,
                "accepted_tokens": record.accepted,
                "sent": [{"kind": i.kind, "file": str(i.source), "bytes": len(i.data)} for i in items],
                "new_files": done.sent,
                "new_bytes": done.sent_bytes,
            }
        )
    there = f", {done.present} there already" if done.present else ""
    print(f"{place.shown}: {counted(done.sent, 'file')} sent{there}")
    if device is None:
        print(f"this device was called {name}; give --device {name} from now on, so that it stays one device")


def _learned(place: Path, pair: "ChannelPair") -> tuple[Path | None, Path, int]:
    """The adapter (None before the first), the cache and the accepted tokens of an adaptation's target."""
    found = learned_of(place, pair.bundle)
    progress, name = found.progress(), found.directory.name
    # What came after the last checkpoint is answered again by whoever goes on, and would count twice.
    lines = read_curve(place / CURVE)[: progress.answered if progress else 0]
    accepted = sum(max(0, line.tokens - line.passes) for line in lines if line.target == name)
    adapter = existing(found.adapter)
    if adapter is None:
        sys.stderr.write(f"omnidraft: {place} has no adapter of this target yet, only n-grams\n")
    return adapter, found.cache, accepted


def _show_push(record: Any, items: Any, due: Any, shown: str) -> None:
    from omnidraft.commands.terminal import output

    table = Table(title=f"to {shown}, as device {record.device}")
    for column in ("what", "file", "bytes", "", "what it tells of you"):
        table.add_column(column, justify="right" if column == "bytes" else "left", overflow="fold")
    for item in items:
        state = "is sent" if item in due else "is there"
        table.add_row(item.kind, str(item.source), f"{len(item.data):,}", state, item.tells)
    table.add_row(
        "record",
        "",
        "",
        "is sent",
        f"the names and sizes above, {record.accepted:,} accepted tokens, the time, which models (by hash)",
    )
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
