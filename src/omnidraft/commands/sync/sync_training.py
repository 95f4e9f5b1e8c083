"""`omnidraft sync list`, `fetch` and `publish`: the training side of a store."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnidraft.commands.signing import passphrase_of, warn_readable
from omnidraft.commands.sync.sync_options import (
    BundlePath,
    Json,
    StoreAddress,
    open_pair,
    release_json,
    transfer,
)
from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.on_interrupt import tells_when_interrupted
from omnidraft.commands.terminal.open_session import tell
from omnidraft.commands.terminal.output import Table
from omnidraft.errors import SettingError, counted
from omnidraft.sync.record_lines import LARGEST

if TYPE_CHECKING:
    from omnidraft.sync.device_pushes import Sent
    from omnidraft.sync.release_contents import Contents, ReleaseMean

Devices = Annotated[
    list[str] | None,
    typer.Option("--device", help="Only the files of this device; repeatable (default: all devices)."),
]


@tells_when_interrupted(lambda _: "nothing was changed")
def list_command(bundle: BundlePath, store: StoreAddress, as_json: Json = False) -> None:
    """Verify and list what devices sent for a pair of models, and show the newest release."""
    from omnidraft.sync.device_pushes import sent_by_devices
    from omnidraft.sync.publish import latest_release
    from omnidraft.sync.store import open_store

    pair, place = open_pair(bundle), open_store(store)
    with transfer("list", as_json) as progress:
        sent = sent_by_devices(place, pair, (), progress)
    newest = latest_release(place, pair.channel, None)
    rows = [_row(each) for each in sent]
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


def _row(each: "Sent") -> dict[str, Any]:
    """The files of one device as a JSON object."""
    from omnidraft.sync.average import size

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
    lambda arguments: f"the files in {arguments['into']} are whole, and the same command fetches the others"
)
def fetch_command(
    bundle: BundlePath,
    store: StoreAddress,
    into: Annotated[
        Path,
        typer.Option(
            "--out", "-o", "--into", help="Traces go to DIR/DEVICE, for `omnidraft train`.", readable=False
        ),
    ],
    device: Devices = None,
    as_json: Json = False,
) -> None:
    """Copy the traces of devices into a directory, verified. Existing files are not fetched again."""
    from omnidraft.sync.fetch import fetch
    from omnidraft.sync.store import open_store

    with transfer("fetch", as_json) as progress:
        counts = fetch(open_store(store), open_pair(bundle), into, device or (), progress)
    if as_json:
        return options.print_json({"into": str(into), "devices": counts})
    for name, files in counts.items():
        print(f"{into / name}: {counted(files, 'file')}")
    if not counts:
        print(f"no device sent traces to {store}")


@tells_when_interrupted(
    lambda _: "the newest release is the old one or the new one, whole (`omnidraft sync list` says which)"
)
def publish_command(
    bundle: BundlePath,
    store: StoreAddress,
    key: Annotated[Path, typer.Option("--key", help="Your private key, NAME.private.pem.", readable=False)],
    adapter: Annotated[
        Path | None,
        typer.Option(
            "--adapter",
            help="Publish this trained adapter (default: the devices' mean).",
            readable=False,
        ),
    ] = None,
    device: Devices = None,
    rank: Annotated[
        int | None,
        typer.Option(help="Rank of the mean (default: by the weights of the devices)."),
    ] = None,
    cap: Annotated[
        int,
        typer.Option(
            min=1,
            help="Largest number of accepted tokens that one device counts with in the mean.",
            show_default="4 times the devices' median",
        ),
    ] = LARGEST,
    memory: Annotated[
        Path | None,
        typer.Option(
            "--memory",
            help="Private file with what you published (default: NAME.published beside the key).",
            readable=False,
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Publish also where the store has lost your newest release."),
    ] = False,
    after: Annotated[
        int,
        typer.Option(
            "--after",
            min=0,
            max=LARGEST - 1,
            help="Number of a release that devices have, where the store and your memory have lost it.",
        ),
    ] = 0,
    days: Annotated[float, typer.Option(help="Days after which devices refuse the release.")] = 180.0,
    as_json: Json = False,
) -> None:
    """Publish a signed, numbered release: n-grams, and the mean of the devices' adapters or a trained one.

    Caches are merged, also with that of the newest release. The mean of the adapters is that of what they add
    to the products, weighted by accepted tokens and cut to a rank by a singular value decomposition. One
    device's weight and size are bounded by those of the others. Devices fetch the release with `sync pull`.
    """
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.runtime.models.adapter_fit import fit
    from omnidraft.signing import need_cryptography, read_private_key
    from omnidraft.sync.device_pushes import sent_by_devices
    from omnidraft.sync.publish import Publisher, newest_of, publish
    from omnidraft.sync.published import PublisherMemory, memory_beside
    from omnidraft.sync.release_contents import Contents, cache_of, mean_of, merged
    from omnidraft.sync.store import open_store

    if not 0 < days <= 36_500:
        raise SettingError(f"--days {days} is outside 0 to 36500", "180 are usual")
    need_cryptography()
    private = read_private_key(key, lambda: passphrase_of(key))
    own = memory_beside(key) if memory is None else PublisherMemory(memory)
    publisher = Publisher(private, own, restore, after)
    pair, place = open_pair(bundle), open_store(store)
    with transfer("publish", as_json) as progress:
        sent = sent_by_devices(place, pair, device or (), progress)
    tell(f"what {each.device} sent is left out: {each.refusal}" for each in sent if each.refusal)
    caches = [each.cache for each in sent if each.cache is not None]
    before = cache_of(place, newest_of(place, pair.channel, publisher.public), pair.vocab_map)
    mean = None if adapter is not None else mean_of(sent, rank, cap)
    tell(f"the adapter of {name} is left out: {why}" for name, why in (mean.left_out if mean else {}).items())
    chosen = None if mean is None else mean.averaged.adapter
    if adapter is not None:
        chosen = read_adapter(adapter)
        fit(chosen, pair.bundle, pair.vocab_map, "drafter")
    devices = sum(each.refusal is None for each in sent)
    contents = Contents(chosen, merged(caches, before), mean.accepted if mean else 0, devices, days)
    release = publish(place, pair.channel, contents, publisher)
    warn_readable(key)
    if release.number == 1:
        tell([
            f"this is release 1 of your key here; if you published before and {own.path} was lost, devices "
            "refuse it, and name the number to give with --after"
        ])  # fmt: skip
    if as_json:
        weights, lost = ({}, 0.0) if mean is None else (mean.weights, mean.averaged.lost)
        return options.print_json(
            {**release_json(release), "channel": pair.channel.id, "lost": lost, "weights": weights}
        )
    print(
        f"{place.shown}: release {release.number}, good until {release.expires}, "
        f"of {counted(devices, 'device')}"
    )
    for line in _content_lines(contents, mean):
        print(line)


def _content_lines(contents: "Contents", mean: "ReleaseMean | None") -> Iterator[str]:
    """What a release holds, a line each."""
    if contents.adapter is not None:
        yield f"  adapter of rank {contents.adapter.rank}" + ("" if mean else ", as given")
    if mean is not None:
        tokens = counted(mean.accepted, "token")
        yield f"  the mean by {tokens}, {mean.averaged.lost:.2%} of it lost to the rank"
        for name, weight in mean.weights.items():
            yield f"    {name}: {counted(weight, 'token')}, {weight / mean.accepted:.1%}"
    if contents.cache is not None:
        yield f"  {counted(len(contents.cache), 'n-gram')}"
