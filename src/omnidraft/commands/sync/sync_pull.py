"""`omnidraft sync pull`: fetch the newest release, and say whether it was taken and why."""

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
    record_json,
)
from omnidraft.commands.terminal import options
from omnidraft.commands.terminal.stop_signals import tells_when_interrupted
from omnidraft.errors import SettingError, SyncError, counted
from omnidraft.learning.compare import LEAST_GENERATIONS
from omnidraft.runtime.bundle.bundle import MANIFEST

if TYPE_CHECKING:
    from omnidraft.learning.compare import AdapterComparison
    from omnidraft.sync.pull import Pulled

_NOT_TAKEN = ("too few recordings", "not better", "refused before")


def _kept(arguments: Mapping[str, Any]) -> str:
    into = arguments["into"]
    return f"the files in use in {into} are whole (`omnidraft sync status {into}`); the same command goes on"


@tells_when_interrupted(_kept)
def pull_command(
    bundle: BundlePath,
    store: StoreAddress,
    into: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Directory for adapters; `--adapter DIR` uses the one in use.",
            readable=False,
        ),
    ],
    public_key: Annotated[
        Path,
        typer.Option(help="The publisher's key, NAME.public.pem; only its releases are taken."),
    ],
    traces: Annotated[
        Path | None,
        typer.Option(
            help="Compare the adapters on these recent traces and keep the better one; "
            f"{LEAST_GENERATIONS} recorded generations are needed (default: use it without a trial).",
            readable=False,
        ),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(help="The device's own adapter, if it is in use now.", readable=False),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="The device's own n-grams; the published ones are merged in.", readable=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch the newest release, verify it, try it on this device's traces, and use it if it is better.

    Signature, models, tokenizers, sizes and hashes are checked, and a release older than one seen before is
    refused. With --traces, the new adapter and the one in use are compared on what was recorded here, and the
    new one is used if its drafts are accepted significantly more often; without --traces it is used untried.
    Traces stay on this device. The trial needs 8 recorded generations: with fewer the adapter is not taken,
    and the next pull tries it again.

    In --json `outcome` says what happened; a release that is not taken is no failure.
    """
    from omnidraft.runtime.bundle.signature import read_public_key
    from omnidraft.sync.channel import release_name
    from omnidraft.sync.pull import Device, pull
    from omnidraft.sync.store import open_store
    from omnidraft.sync.trial import trial_on

    pair, key = open_pair(bundle), read_public_key(public_key)
    if (into / MANIFEST).exists():
        raise SettingError(f"--out {into} is a bundle", "give another directory for the pulled files")
    trial = None if traces is None else trial_on(traces, pair.bundle, pair.vocab_map)
    try:
        signed = open_store(store).read(release_name(pair.channel), "release", key)
    except SyncError as error:
        if error.fault != "missing":
            raise
        raise SyncError(
            f"{store} has no release for the pair of models of {bundle.name}",
            "check the store's address and the bundle, or ask its publisher",
            fault="missing",
        ) from None
    pulled = pull(signed, Device(pair, into, trial, adapter, cache))
    if as_json:
        return options.print_json(_as_json(pulled))
    print(_sentence(pulled, into, traces))
    if pulled.learned is not None:
        print(f"{cache}: {counted(pulled.learned, 'new n-gram')}")


def _as_json(pulled: "Pulled") -> dict[str, Any]:
    comparison = pulled.comparison
    return {
        "outcome": pulled.outcome,
        "why_not_taken": pulled.outcome if pulled.outcome in _NOT_TAKEN else None,
        "recordings": None if comparison is None else comparison.generations,
        "recordings_needed": LEAST_GENERATIONS,
        "release": record_json(pulled.release),
        "shadow": None if comparison is None else _comparison_json(comparison),
        "adapter": None if pulled.adapter is None else str(pulled.adapter),
        "learned": pulled.learned,
    }


def _comparison_json(comparison: "AdapterComparison") -> dict[str, Any]:
    values = asdict(comparison)
    for end in ("low", "high"):
        values[end] = values[end] if comparison.is_enough else None
    difference = comparison.offered - comparison.current
    return {**values, "difference": difference, "better": comparison.is_better}


def _sentence(pulled: "Pulled", into: Path, traces: Path | None) -> str:
    """What the pull did, in one sentence."""
    number, comparison = pulled.release.number, pulled.comparison
    if pulled.outcome == "newest":
        return f"release {number} is in use already; the store has no newer one"
    if pulled.outcome == "no adapter":
        stays = "the drafter stays as it is" if pulled.adapter is None else "the adapter in use stays"
        return f"release {number} has n-grams only; {stays}"
    if pulled.outcome == "refused before":
        return (
            f"release {number} was not taken: it was tried before or given up, and the store has no newer one"
        )
    if comparison is None:
        return (
            f"release {number} is in use, untried (no --traces); `omnidraft sync rollback {into}` undoes it"
        )
    if pulled.outcome == "too few recordings":
        recorded = counted(comparison.generations, "recorded generation")
        return (
            f"release {number} was not taken: {traces} has {recorded} and {LEAST_GENERATIONS} are needed to "
            f"try it; record more with `omnidraft generate --trace {traces}`, or pull without --traces to "
            "take it untried"
        )
    figures = _figures(comparison, pulled.had_adapter)
    if pulled.outcome == "switched":
        return f"release {number} is in use, better: {figures}"
    verdict = "worse" if comparison.high < 0 else "not surely better"
    return f"release {number} was not taken, {verdict}: {figures}"


def _figures(comparison: "AdapterComparison", had_adapter: bool) -> str:
    """Acceptance with both adapters."""
    generations = counted(comparison.generations, "recorded generation")
    current = "the adapter that was in use" if had_adapter else "the drafter without an adapter"
    return (
        f"on {generations} ({counted(comparison.positions, 'place')}) {comparison.offered:.4f} of its draft "
        f"tokens would have been accepted and {comparison.current:.4f} of those of {current}, a difference "
        f"of {comparison.low:+.4f} to {comparison.high:+.4f} (95 %)"
    )
