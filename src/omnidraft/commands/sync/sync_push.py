"""`omnidraft sync push`: send learned files to a store, after a table of what they reveal."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.sync.sync_options import BundlePath, Json, StoreAddress, open_pair, transfer
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.open_session import existing, learned_of, tell
from omnidraft.commands.terminal.output import Table
from omnidraft.errors import SettingError, counted
from omnidraft.learning.online.adaptation import CURVE
from omnidraft.learning.online.curve import read_curve

if TYPE_CHECKING:
    from omnidraft.sync.device_pushes import ChannelPair
    from omnidraft.sync.push import Pushed, PushItem
    from omnidraft.sync.push_record import Push


@tells_when_interrupted(lambda _: "a push is visible once it is whole; the same command goes on with it")
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
            help="Send the recordings in this directory: every prompt and answer, word for word.",
            readable=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Name of this device in the store (default: a random one)."),
    ] = None,
    accepted_tokens: Annotated[
        int | None,
        typer.Option(
            "--accepted-tokens",
            help="Weight of the adapter in averages: the number of accepted tokens of its drafts (default: "
            "counted in --adapted or --traces).",
        ),
    ] = None,
    adapted: Annotated[
        Path | None,
        typer.Option(
            "--adapted",
            metavar="PLACE",
            help="Send what `omnidraft adapt --out PLACE` learned of this bundle's target: its adapter, its "
            "n-grams and its count of accepted tokens. Its answers are not sent.",
            readable=False,
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="This device used this name before: replace what it sent."),
    ] = False,
    rename: Annotated[
        str | None,
        typer.Option(
            "--rename",
            metavar="OLD",
            help="Push under a new name, then remove what this device sent under the name OLD.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Send this device's own adapter and n-grams, or its traces, to a store. Nothing else is sent.

    A table first lists the files and what they reveal about you; they are sent with --yes, or when you agree.
    With --replace they replace what this device sent before. An interrupted push is invisible; the next one
    goes on with it. The name is all that tells this device's pushes from others'; --rename takes a new one.
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
    push.check_owner(place, record, replace)
    due = push.missing(place, record, items)
    if not (as_json and yes):
        _show_push(record, items, due, place.shown)
    if not yes:
        _confirm()
    with transfer("push", as_json) as progress:
        done = push.push(place, record, items, progress)
    if rename is not None and push.check_device(rename) != name:
        push.withdraw(place, pair.channel, rename)
    if as_json:
        return options.print_json(_as_json(record, items, done, pair))
    present = f", {done.present} there already" if done.present else ""
    print(f"{place.shown}: {counted(done.sent, 'file')} sent{present}")
    if device is None:
        print(f"this device was named {name}; give --device {name} --replace from now on, or --rename {name}")


def _as_json(
    record: "Push", items: "Sequence[PushItem]", done: "Pushed", pair: "ChannelPair"
) -> dict[str, Any]:
    return {
        "device": record.device,
        "channel": pair.channel.id,
        "accepted_tokens": record.accepted,
        "sent": [{"kind": i.kind, "file": str(i.source), "bytes": len(i.data)} for i in items],
        "new_files": done.sent,
        "new_bytes": done.sent_bytes,
    }


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


def _show_push(record: "Push", items: "Sequence[PushItem]", due: "Sequence[PushItem]", store: str) -> None:
    """Print the table of a push: its files, and what each reveals."""
    table = Table(title=f"to {store}, as device {record.device}")
    for column in ("what", "file", "bytes", "", "what it reveals about you"):
        table.add_column(column, justify="right" if column == "bytes" else "left", overflow="fold")
    for item in items:
        state = "is sent" if item in due else "is in the store"
        table.add_row(item.kind, str(item.source), f"{len(item.data):,}", state, item.tells)
    table.add_row(
        "record",
        "",
        "",
        "is sent",
        f"the names and sizes above, {record.accepted:,} accepted tokens, the time, which models (by hash)",
    )
    table.add_row(
        "identity",
        "",
        "",
        "is sent",
        f"the name {record.device}: a reader of the store can tell by it which pushes are of one device "
        "(--rename takes a new one)",
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
