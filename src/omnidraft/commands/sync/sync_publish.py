"""`omnidraft sync publish`: average what accepted devices learned, try it on held-back text, and sign it."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.signing import passphrase_of, warn_readable
from omnidraft.commands.sync.sync_options import BundlePath, Json, StoreAddress, open_pair, record_json
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.open_session import tell
from omnidraft.commands.terminal.stop_signals import tells_when_interrupted
from omnidraft.errors import SettingError, counted

if TYPE_CHECKING:
    from omnidraft.learning.compare import AdapterComparison
    from omnidraft.runtime.models.adapter import Adapter
    from omnidraft.runtime.vocab.cache_table import CacheTable
    from omnidraft.sync.publish import Mean


@tells_when_interrupted(lambda _: "the store has the old release or the new one, whole")
def publish_command(
    bundle: BundlePath,
    store: StoreAddress,
    key: Annotated[Path, typer.Option(help="Your private key, NAME.private.pem.", readable=False)],
    devices: Annotated[
        Path | None,
        typer.Option(
            help="Accept the devices in this file: a line `KEY NAME` for each, as `sync push` prints it.",
            readable=False,
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(help="Publish this trained adapter (default: the devices' mean).", readable=False),
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(help="Try the adapter on these recordings, which nobody trained on.", readable=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a signed, numbered release: n-grams, and the mean of the devices' adapters or a trained one.

    Only devices whose keys you list take part. The mean is that of what their adapters add to the products,
    weighted by accepted tokens; one device's weight and size are bounded by those of the others. Then the
    adapter is compared on --traces with that of your release before, and nothing is published if it is worse.
    """
    from omnidraft.runtime.models.adapter_file import read_adapter
    from omnidraft.runtime.models.adapter_fit import fit
    from omnidraft.signing import need_cryptography, raw_public, read_private_key
    from omnidraft.sync import publish
    from omnidraft.sync.pull import contents_of
    from omnidraft.sync.store import open_store
    from omnidraft.sync.trial import trial_on

    if devices is None and adapter is None:
        raise SettingError(
            "neither devices nor an adapter are named", "give --devices FILE, or --adapter FILE"
        )
    need_cryptography()
    private = read_private_key(key, lambda: passphrase_of(key))
    pair, place = open_pair(bundle), open_store(store)
    memory = publish.memory_beside(key, pair.channel)
    before = publish.remembered(memory, pair, raw_public(private))
    had, grams = (None, None) if before is None else contents_of(before, pair)
    sent = [] if devices is None else publish.sent_by(place, pair, publish.read_devices(devices))
    tell(f"the push of {each.device} is left out: {each.refusal}" for each in sent if each.refusal)
    chosen, mean, comparison = None, None, None
    if adapter is not None:
        chosen = read_adapter(adapter)
        fit(chosen, pair.bundle, pair.vocab_map, "drafter")
    elif (mean := publish.mean_of(sent)) is not None:
        chosen = mean.adapter
        tell(f"the adapter of {name} is left out: {why}" for name, why in mean.left_out.items())
    if chosen is not None:
        if traces is None:
            raise SettingError("an adapter is published after a trial", "give --traces with held-back text")
        comparison = publish.tried(trial_on(traces, pair.bundle, pair.vocab_map), had, chosen)
    cache = publish.merged([each.cache for each in sent if each.cache is not None], grams)
    accepted = sum(mean.weights.values()) if mean else 0
    contents = (chosen, cache, accepted)
    release = publish.publish(place, pair.channel, contents, private, memory, before).record
    warn_readable(key)
    if as_json:
        return options.print_json(
            {
                **record_json(release),
                "lost": mean.lost if mean else 0.0,
                "weights": mean.weights if mean else {},
                "left_out": {each.device: each.refusal for each in sent if each.refusal}
                | (mean.left_out if mean else {}),
                "trial": None if comparison is None else asdict(comparison),
            }
        )
    print(f"{place.shown}: release {release.number}, good until {release.expires}")
    for line in _content_lines(chosen, cache, mean, comparison):
        print(line)


def _content_lines(
    adapter: "Adapter | None",
    cache: "CacheTable | None",
    mean: "Mean | None",
    comparison: "AdapterComparison | None",
) -> Iterator[str]:
    """What a release holds, a line each."""
    if adapter is not None and comparison is not None:
        yield f"  adapter of rank {adapter.rank}" + ("" if mean else ", as given")
        yield f"  {comparison.offered:.4f} of its draft tokens accepted, {comparison.current:.4f} before it"
    if mean is not None:
        total = sum(mean.weights.values())
        yield f"  the mean by {counted(total, 'token')}, {mean.lost:.2%} of it lost to the rank"
        for name, weight in mean.weights.items():
            yield f"    {name}: {counted(weight, 'token')}, {weight / total:.1%}"
    if cache is not None:
        yield f"  {counted(len(cache), 'n-gram')}"
