"""`omnidraft sync`: share what drafters learned through a store; only named files are sent."""

from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.sync.sync_options import Json
from omnidraft.commands.sync.sync_publish import publish_command
from omnidraft.commands.sync.sync_pull import pull_command
from omnidraft.commands.sync.sync_push import push_command
from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError
from omnidraft.sync.installed import Installed, Used, read_installed, roll_back

app = typer.Typer(
    help="Share what drafters learned: devices push to a store and pull from it, others publish.\n\n"
    "A store is a folder, a bucket (s3://bucket/place) or, to pull from, a web address.\n\n"
    "On a device:  `sync push BUNDLE STORE --adapted learned`,  "
    "`sync pull BUNDLE STORE -o DIR --public-key KEY --traces DIR`.\n\n"
    "On the training side:  `sync publish BUNDLE STORE --key KEY --devices FILE --traces DIR`.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory of `sync pull -o`.", readable=False)
]


@app.command("rollback")
def rollback_command(directory: Directory, as_json: Json = False) -> None:
    """Use the previous adapter again. Later pulls do not take the abandoned release again."""
    state = roll_back(directory)
    if as_json:
        return options.print_json(_state_json(state))
    print(f"{directory}: {_used(state.current)} is in use again")


@app.command("status")
def status_command(directory: Directory, as_json: Json = False) -> None:
    """Show the adapter in use in a directory, the one before it, and the newest release seen."""
    state = read_installed(directory)
    if state is None:
        raise SettingError(f"{directory} holds nothing that was pulled", "run `omnidraft sync pull` first")
    if as_json:
        return options.print_json(_state_json(state))
    before = "" if state.current == state.previous else f"; before it, {_used(state.previous)}"
    print(f"{directory}: {_used(state.current)} is in use{before}")
    print(f"  newest release seen: {state.seen.number if state.seen else 'none'}")


def _used(used: Used | None) -> str:
    if used is None:
        return "the drafter without an adapter"
    origin = f"release {used.number}" if used.number else "this device's own adapter"
    return f"{origin} ({used.file.sha256[:12]})"


def _state_json(state: Installed) -> dict[str, Any]:
    def used(each: Used | None) -> dict[str, Any] | None:
        return None if each is None else {"release": each.number or None, "sha256": each.file.sha256}

    return {
        "current": used(state.current),
        "previous": used(state.previous),
        "seen": state.seen.number if state.seen else None,
    }


app.command("push")(push_command)
app.command("pull")(pull_command)
app.command("publish")(publish_command)
