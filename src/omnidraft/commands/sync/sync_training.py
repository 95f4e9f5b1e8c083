"""`omnidraft sync list | fetch | publish`: the training side of a store."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.signing import passphrase_of
from omnidraft.commands.sync.sync_options import (
    BundlePath,
    Json,
    StoreAddress,
    open_pair,
    release_json,
    transfer,
)
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.errors import SettingError, counted
from omnidraft.sync.release import LARGEST

Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="Only what this device sent; may be repeated (default: all devices)."),
]


@tells_when_interrupted(lambda _: "nothing was changed")
def list_command(bundle: BundlePath, store: StoreAddress, as_json: Json = False) -> None:
    """Show what devices sent for a pair of models, each file verified, and the newest release."""
    from rich.table import Table

    from omnidraft.commands.terminal import output
    from omnidraft.sync import publish
    from omnidraft.sync.average import size
    from omnidraft.sync.store import open_store

    pair, place = open_pair(bundle), open_store(store)
    with transfer("list", as_json) as progress:
        sent = publish.sent_by_devices(place, pair, (), progress)
    newest = publish.latest_release(place, pair.channel, None)
    rows = [_row(each, size) for each in sent]
    if as_json:
        return options.print_json(
            {
                "channel": pair.channel.id,
                "devices": rows,
                "latest": None if newest is None else release_json(newest),
            }
        )
    table = Table(title=f"{place.shown}: newest release {newest.number if newest else 'none'}")
    for column in ("device", "pushed", "accepted tokens", "adapter", "n-grams", "traces", "left out because"):
        table.add_column(column, overflow="fold")
    for row in rows:
        added = "" if row["adapter_size"] is None else f"size {row['adapter_size']:.3g}"
        cells = (row["device"], row["created"], f"{row['accepted_tokens']:,}", added, row["ngrams"])
        table.add_row(
            *("" if cell is None else str(cell) for cell in (*cells, row["traces"], row["refusal"]))
        )
    output.out.print(table)


def _row(each: Any, size: Any) -> dict[str, Any]:
    push = each.push
    return {
        "device": each.device,
        "created": push.created if push else None,
        "accepted_tokens": push.accepted if push else 0,
        "adapter_size": None if each.adapter is None else size(each.adapter),
        "ngrams": None if each.cache is None else len(each.cache),
        "traces": len(push.traces) if push else 0,
        "refusal": each.refusal,
    }


@tells_when_interrupted(
    lambda given: f"the files in {given['into']} are whole, and the same command fetches the others"
)
def fetch_command(
    bundle: BundlePath,
    store: StoreAddress,
    into: Annotated[
        Path,
        typer.Option("--into", help="Traces go to DIR/DEVICE, for `omnidraft train`.", readable=False),
    ],
    device: Devices = None,
    as_json: Json = False,
) -> None:
    """Copy the traces that devices sent into a directory, verified; what is there is not fetched again."""
    from omnidraft.sync.fetch import fetch
    from omnidraft.sync.store import open_store

    with transfer("fetch", as_json) as progress:
        found = fetch(open_store(store), open_pair(bundle), into, device or (), progress)
    if as_json:
        return options.print_json({"into": str(into), "devices": found})
    for name, files in found.items():
        print(f"{into / name}: {counted(files, 'file')}")
    if not found:
        print(f"no device sent traces to {store}")


@tells_when_interrupted(
    lambda given: "the newest release is the old one or the new one, whole (`omnidraft sync list` says which)"
)
def publish_command(
    bundle: BundlePath,
    store: StoreAddress,
    key: Annotated[Path, typer.Option("--key", help="Your private key, NAME.private.pem.", readable=False)],
    adapter: Annotated[
        Path | None,
        typer.Option(
            "--adapter", help="Publish this trained adapter (default: the devices' mean).", readable=False
        ),
    ] = None,
    device: Devices = None,
    rank: Annotated[
        int | None, typer.Option(help="Rank of the mean (default: the devices' own largest).")
    ] = None,
    cap: Annotated[
        int,
        typer.Option(
            min=1,
            help="Accepted tokens that a device counts with in the mean at most.",
            show_default="no bound",
        ),
    ] = LARGEST,
    days: Annotated[float, typer.Option(help="Devices refuse it after so many days.")] = 180.0,
    as_json: Json = False,
) -> None:
    """Make one adapter and one cache of what devices sent, or publish a trained adapter; sign and number it.

    Caches are merged, with the newest release's. Adapters are averaged by their accepted tokens: the mean of
    what they add to the products, cut to a rank by a singular value decomposition. Devices take it up with
    `sync pull`.
    """
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.runtime.models.adapter_fit import fit
    from omnidraft.signing import need_cryptography, raw_public, read_private_key
    from omnidraft.sync import publish
    from omnidraft.sync.store import open_store

    if not 0 < days <= 36_500:
        raise SettingError(f"--days {days} is outside 0 to 36500", "180 are usual")
    need_cryptography()
    private = read_private_key(key, lambda: passphrase_of(key))
    pair, place = open_pair(bundle), open_store(store)
    with transfer("publish", as_json) as progress:
        sent = publish.sent_by_devices(place, pair, device or (), progress)
    for each in sent:
        if each.refusal:
            sys.stderr.write(f"omnidraft: what {each.device} sent is left out: {each.refusal}\n")
    newest = publish.newest_of(place, pair.channel, raw_public(private))
    caches = [each.cache for each in sent if each.cache is not None]
    before = publish.cache_of(place, newest, pair.vocab_map)
    cache = publish.merged(caches + ([] if before is None else [before]))
    mean = None if adapter is not None else publish.mean_of(sent, rank, cap)
    chosen = None if mean is None else mean.averaged.adapter
    if adapter is not None:
        chosen = read_adapter(adapter)
        fit(chosen, pair.bundle, pair.vocab_map, "drafter")
    devices = sum(each.refusal is None for each in sent)
    contents = publish.Contents(chosen, cache, mean.accepted if mean else 0, devices, days)
    release = publish.publish(place, pair.channel, contents, private)
    if os.name == "posix" and key.stat().st_mode & 0o077:
        sys.stderr.write(f"omnidraft: others can read {key}; run `chmod 600 {key}`\n")
    if as_json:
        weights, lost = ({}, 0.0) if mean is None else (mean.weights, mean.averaged.lost)
        return options.print_json(
            {**release_json(release), "channel": pair.channel.id, "lost": lost, "weights": weights}
        )
    print(
        f"{place.shown}: release {release.number}, good until {release.expires}, "
        f"of {counted(devices, 'device')}"
    )
    if chosen is not None:
        print(f"  adapter of rank {chosen.rank}" + ("" if mean else ", as given"))
    if mean is not None:
        tokens = counted(mean.accepted, "token")
        print(f"  the mean by {tokens}, {mean.averaged.lost:.2%} of it lost to the rank")
        for name, weight in mean.weights.items():
            print(f"    {name}: {counted(weight, 'token')}, {weight / mean.accepted:.1%}")
    if cache is not None:
        print(f"  {counted(len(cache), 'n-gram')}")
