"""`omnidraft serve`; what it needs is imported when it runs, so that `--help` is there at once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from omnidraft.commands.terminal import options
from omnidraft.errors import SettingError, install, reason

API_KEY = "OMNIDRAFT_API_KEY"  # environment variable: an option would stand in the list of processes
LEAST_KEY, MOST_KEY = 16, 1024  # characters of a key
QUEUE, MOST_QUEUE = 16, 1024


def serve(
    bundle: options.BundlePath,
    host: Annotated[
        str, typer.Option(help="Address to listen on; one that other machines reach needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8080,
    config: options.ConfigFile = None,
) -> None:
    """Serve a bundle to OpenAI clients on this machine, with a page to chat; Ctrl-C ends it.

    What requests leave open is as in the file of --config. That file may also have adapter, cache, key_file,
    origins and queue; the key may also be in the environment variable OMNIDRAFT_API_KEY.
    """
    from omnidraft.commands.terminal.generation_options import config_in_file
    from omnidraft.commands.terminal.open_session import open_session, session_options
    from omnidraft.commands.terminal.settings_file import SettingsFile
    from omnidraft.runtime.session.api import GenerationConfig

    try:
        from omnidraft.serve.app import model_app, model_name
        from omnidraft.serve.guard import Admission
        from omnidraft.serve.listen import LocalServer, bound_socket, is_loopback, url_of
        from omnidraft.serve.worker import Worker
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise SettingError(f"the package {error.name} is missing", install("serve")) from None

    file = SettingsFile(config)
    settings = config_in_file(file, GenerationConfig(max_new_tokens=512))
    opening = session_options(file, adapter=file.path("adapter"), cache=file.path("cache"))
    key, local = _key(file.path("key_file")), is_loopback(host)
    admission = Admission(key, any_host=not local, origins=file.texts("origins"))
    queue = file.integer("queue", QUEUE)
    file.refuse_others()
    if not 0 <= queue <= MOST_QUEUE:
        raise SettingError(f"queue {queue} is outside 0..{MOST_QUEUE}", f"{QUEUE} is usual")
    if not local and key is None:
        raise SettingError(
            f"host {host} is reached by other machines, and there is no key",
            f"put one into {API_KEY} or key_file, or leave --host out",
        )
    with bound_socket(host, port) as bound:
        session = open_session(bundle, opening, settings)
        worker = Worker(queue)
        app = model_app(session, settings, worker, admission)

        def listening() -> None:
            place = url_of(bound)
            sys.stderr.write(f"omnidraft: {model_name(bundle)} is at {place}/v1, with a page at {place}\n")
            sys.stderr.flush()

        LocalServer(app, worker, listening).run([bound])


def _key(file: Path | None) -> str | None:
    """The key in a file, or in the environment; None where there is none."""
    from omnidraft.runtime.disk.read_file import read_whole

    text = os.environ.get(API_KEY)
    if file is not None:
        try:
            text = read_whole(file, MOST_KEY + 2).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"key_file {file} cannot be read ({reason(error)})") from None
    if text is None:
        return None
    key = text.strip()
    if not LEAST_KEY <= len(key) <= MOST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise SettingError(
            f"the key in {file or API_KEY} has {len(key)} characters, or one that no header can hold",
            f"give {LEAST_KEY} to {MOST_KEY} letters, digits or signs",
        )
    return key
