"""`omnidraft sync pull`: what became of the newest release, and why where it was not taken."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from omnidraft.learning.compare import LEAST_GENERATIONS
from omnidraft.runtime.bundle.bundle import MANIFEST

if TYPE_CHECKING:
    from omnidraft.learning.compare import AdapterComparison
    from omnidraft.runtime.models.adapter import Adapter
    from omnidraft.sync.publish import ChannelPair
    from omnidraft.sync.pull import Pulled, Trial
    from omnidraft.sync.store import Progress

# Exit statuses of a pull that did not put the newest release to use; 1 and 2 are refusals and wrong options.
STATUS = {"too few recordings": 3, "not better": 4, "not better before": 4}


def _kept(given: Mapping[str, Any]) -> str:
    into = given["into"]
    return f"what is in use in {into} is whole (`omnidraft sync status {into}`), and the same command goes on"


@tells_when_interrupted(_kept)
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
        typer.Option(
            "--traces",
            help=f"Try it on these recent traces, and keep the better; {LEAST_GENERATIONS} recorded "
            "generations are needed (without this option it is used untried).",
            readable=False,
        ),
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
    would surely have been accepted more often; without, it is taken as it is. Traces stay here. The trial
    needs 8 recorded generations: with fewer the adapter is not taken, and the next pull tries it again.

    Exit status: 0 the newest release is in use, or has n-grams only; 1 something was refused or failed;
    2 wrong options; 3 not taken, too few recordings to try it on; 4 not taken, tried (now or before) and not
    better.
    """
    from omnidraft.sync.pull import Device, pull
    from omnidraft.sync.store import open_store

    pair = open_pair(bundle)
    if (into / MANIFEST).exists():
        raise SettingError(f"--into {into} is a bundle", "give a directory of its own for what is pulled")
    with transfer("pull", as_json) as progress:
        trial = None if traces is None else _trial(traces, pair, progress)
        device = Device(pair.bundle, pair.vocab_map, into, public_key, trial, adapter, cache, again)
        found = pull(open_store(store), device, progress)
    if as_json:
        options.print_json(
            {
                "outcome": found.outcome,
                "why_not_taken": found.why_not_taken,
                "recordings": None if found.shadow is None else found.shadow.generations,
                "recordings_needed": LEAST_GENERATIONS,
                "release": release_json(found.release),
                "shadow": None if found.shadow is None else _shadow_json(found.shadow),
                "adapter": None if found.adapter is None else str(found.adapter),
                "learned": found.learned,
                "signed_by": found.key,
            }
        )
    else:
        print(_sentence(found, into, traces))
        if found.learned is not None:
            print(f"{cache}: {counted(found.learned, 'new n-gram')}")
        if found.key is None:
            print("the signature was not checked; --public-key checks it")
    if found.why_not_taken is not None:
        raise typer.Exit(STATUS[found.why_not_taken])


def _trial(traces: Path, pair: "ChannelPair", progress: "Progress") -> "Trial":
    """A trial on traces that says when it begins: it takes longer than the download."""
    from omnidraft.sync.trial import trial_on

    compare = trial_on(traces, pair.bundle, pair.vocab_map)

    def told(current: "Adapter | None", offered: "Adapter") -> "AdapterComparison":
        progress("try it on what was recorded", 0, 0)
        return compare(current, offered)

    return told


def _shadow_json(found: Any) -> dict[str, Any]:
    values = asdict(found)
    for end in ("low", "high"):
        values[end] = values[end] if found.is_enough else None
    return {**values, "difference": found.offered - found.current, "better": found.is_better}


def _sentence(found: "Pulled", into: Path, traces: Path | None) -> str:
    number, s = found.release.number, found.shadow
    if found.outcome == "newest":
        return f"release {number} is in use already; the store has no newer one"
    if found.outcome == "no adapter":
        stays = "the drafter stays as it is" if found.adapter is None else "the adapter in use stays"
        return f"release {number} has n-grams only; {stays}"
    if found.why_not_taken == "not better before":
        return (
            f"release {number} was not taken: it was tried before or given up, and the store has no newer "
            "one; --again tries it once more"
        )
    if s is None:
        return (
            f"release {number} is in use, untried (no --traces); `omnidraft sync rollback {into}` undoes it"
        )
    if found.why_not_taken == "too few recordings":
        return (
            f"release {number} was not taken: {traces} has {counted(s.generations, 'recorded generation')} "
            f"and {LEAST_GENERATIONS} are needed to try it; record more with `omnidraft generate --trace "
            f"{traces}`, or pull without --traces to take it untried"
        )
    read = f"{counted(s.generations, 'recorded generation')} ({counted(s.positions, 'place')})"
    current = "the adapter that was in use" if found.had_adapter else "the drafter without an adapter"
    compared = (
        f"on {read} {s.offered:.4f} of its draft tokens would have been accepted and {s.current:.4f} of "
        f"those of {current}, a difference of {s.low:+.4f} to {s.high:+.4f} (95 %)"
    )
    if found.outcome == "switched":
        return f"release {number} is in use, better: {compared}"
    return f"release {number} was not taken, {'worse' if s.high < 0 else 'not surely better'}: {compared}"
