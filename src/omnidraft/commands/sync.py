"""`omnidraft sync`: share what drafters learned through a store, with nothing sent that was not named."""

import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from omnidraft.commands import options, sync_training
from omnidraft.commands.sync_options import BundlePath, Json, StoreAddress, open_pair, release_json, transfer
from omnidraft.errors import SettingError
from omnidraft.runtime.installed import Installed, Used, read_installed, roll_back

app = typer.Typer(
    help="Share what drafters learned: devices push to a store and pull from it, others publish.\n\n"
    "A store is a folder, a bucket (s3://bucket/place) or, to pull from, a web address.\n\n"
    "On a device:  `sync push BUNDLE STORE --adapter mine.safetensors --cache mine.odc`,  "
    "`sync pull BUNDLE STORE --into DIR --public-key KEY`.\n\n"
    "On the training side:  `sync list`,  `sync fetch`,  `sync publish BUNDLE STORE --key KEY`.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="What `sync pull --into` filled.", readable=False)
]


@app.command("push")
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
            "--accepted-tokens", help="Weight of the adapter in averages (default: counted in --traces)."
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
    from omnidraft.sync.layout import utc
    from omnidraft.sync.store import open_store

    pair = open_pair(bundle)
    name = push.check_device(secrets.token_hex(8) if device is None else device)
    items = [] if adapter is None else [push.adapter_item(adapter, pair.bundle, pair.vocab_map)]
    items += [] if cache is None else [push.cache_item(cache, pair.vocab_map)]
    items += [] if traces is None else push.trace_items(traces, pair.vocab_map)
    record = push.push_of(items, name, pair.channel, accepted_tokens, utc())
    place = open_store(store)
    due = push.missing(place, record, items)
    if not as_json:
        _show_push(record, items, due, place.shown)
    if not yes:
        _confirm()
    with transfer("push") as progress:
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
    there = f", {done.present} were there already" if done.present else ""
    print(f"{place.shown}: {done.sent} files sent{there}")
    if device is None:
        print(f"this device was called {name}; give --device {name} from now on, so that it stays one device")


def _show_push(record: Any, items: Any, due: Any, shown: str) -> None:
    from omnidraft.commands import view

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
    view.err.print(table)


def _confirm() -> None:
    if not sys.stdin.isatty():
        raise SettingError("nothing was sent; add --yes to send what the table lists")
    if not typer.confirm("Send this?", err=True):
        raise SettingError("nothing was sent")


@app.command("withdraw")
def withdraw_command(
    bundle: BundlePath,
    store: StoreAddress,
    device: Annotated[str, typer.Option("--device", help="The name that it was pushed under.")],
    as_json: Json = False,
) -> None:
    """Remove all that a device sent from a store. What was published from it meanwhile stays published."""
    from omnidraft.sync import push
    from omnidraft.sync.store import open_store

    place = open_store(store)
    count = push.withdraw(place, open_pair(bundle).channel, push.check_device(device))
    if as_json:
        return options.print_json({"device": device, "deleted": count})
    print(f"{place.shown}: {count} file{'' if count == 1 else 's'} of {device} deleted")


@app.command("pull")
def pull_command(
    bundle: BundlePath,
    store: StoreAddress,
    into: Annotated[
        Path,
        typer.Option(
            "--into", help="Where adapters are kept; `--adapter DIR` uses the best of them.", readable=False
        ),
    ],
    public_key: Annotated[
        Path | None,
        typer.Option(
            "--public-key", help="The publisher's key, NAME.public.pem: only what it signed is taken."
        ),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option("--traces", help="Try it on these recent traces, and keep the better.", readable=False),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option("--adapter", help="The device's own adapter, where it is in use now.", readable=False),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache", help="The device's own n-grams: merge the published ones in.", readable=False
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Try what was refused before once more.")] = False,
    as_json: Json = False,
) -> None:
    """Fetch the newest release, verify it, try it on this device's traces, and use it where it is better.

    Signature, models, tokenizers, sizes and hashes are checked, and an older release than one seen before is
    refused. With --traces both adapters read what was recorded here, and the new one is used if its drafts
    would surely have been accepted more often; without, it is taken as it is. Traces stay here.
    """
    from omnidraft.sync.pull import Device, pull
    from omnidraft.sync.store import open_store

    pair = open_pair(bundle)
    trial = None
    if traces is not None:
        from omnidraft.sync.trial import trial_on

        trial = trial_on(traces, pair.bundle, pair.vocab_map)
    device = Device(pair.bundle, pair.vocab_map, into, public_key, trial, adapter, cache, again)
    with transfer("pull") as progress:
        found = pull(open_store(store), device, progress)
    if as_json:
        return options.print_json(
            {
                "outcome": found.outcome,
                "release": release_json(found.release),
                "shadow": None if found.shadow is None else _shadow_json(found.shadow),
                "adapter": None if found.adapter is None else str(found.adapter),
                "learned": found.learned,
                "signed_by": found.key,
            }
        )
    print(_sentence(found, into))
    if found.learned is not None:
        print(f"{cache}: {found.learned:,} n-grams are new")
    if found.key is None:
        print("the signature was not checked; --public-key checks it")


def _shadow_json(found: Any) -> dict[str, Any]:
    values = asdict(found)
    for end in ("low", "high"):
        values[end] = values[end] if found.is_enough else None
    return {**values, "difference": found.offered - found.current, "better": found.is_better}


def _sentence(found: Any, into: Path) -> str:
    number = found.release.number
    if found.outcome == "newest":
        return f"release {number} is in use already"
    if found.outcome == "no adapter":
        return f"release {number} has n-grams only; the adapter in use stays"
    if found.outcome == "refused before":
        return f"release {number} was not kept before, and there is no newer one; --again tries it once more"
    if found.shadow is None:
        return (
            f"release {number} is in use, untried (no --traces); `omnidraft sync rollback {into}` undoes it"
        )
    s = found.shadow
    if not s.is_enough:
        return (
            f"release {number} was not taken: {s.generations} recorded generations are too few to "
            "compare it; record more, or pull without --traces"
        )
    compared = (
        f"{s.offered:.4f} of its draft tokens would have been accepted and {s.current:.4f} of those before, "
        f"95 % {s.low:+.4f} to {s.high:+.4f}, on {s.positions:,} places of {s.generations} generations"
    )
    verdict = "is in use, better" if found.outcome == "switched" else "was not taken, not surely better"
    return f"release {number} {verdict}: {compared}"


@app.command("rollback")
def rollback_command(directory: Directory, as_json: Json = False) -> None:
    """Use the previous adapter again; the release that is given up is not taken by itself again."""
    state = roll_back(directory)
    if as_json:
        return options.print_json(_state_json(state))
    print(f"{directory}: {_used(state.current)} is in use again")


@app.command("status")
def status_command(directory: Directory, as_json: Json = False) -> None:
    """Say what a directory has in use, what it had before, and which release it saw last."""
    state = read_installed(directory)
    if state is None:
        raise SettingError(f"{directory} holds nothing that was pulled; run `omnidraft sync pull` first")
    if as_json:
        return options.print_json(_state_json(state))
    print(f"{directory}: {_used(state.current)} is in use; before it, {_used(state.previous)}")
    print(f"  newest release seen: {state.seen.number if state.seen else 'none'}"
          f"; signatures: {f'key {state.key}' if state.key else 'not checked'}")  # fmt: skip


def _used(used: Used | None) -> str:
    if used is None:
        return "the drafter as it is"
    came = f"release {used.number}" if used.number else "this device's own adapter"
    return f"{came} ({used.file.sha256[:12]})"


def _state_json(state: Installed) -> dict[str, Any]:
    def used(each: Used | None) -> dict[str, Any] | None:
        return None if each is None else {"release": each.number or None, "sha256": each.file.sha256}

    return {
        "current": used(state.current),
        "previous": used(state.previous),
        "seen": state.seen.number if state.seen else None,
        "key": state.key,
    }


app.command("list")(sync_training.list_command)
app.command("fetch")(sync_training.fetch_command)
app.command("publish")(sync_training.publish_command)
