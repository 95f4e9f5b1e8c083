"""Stores over HTTP and invalid addresses: cut files, absent servers, read-only stores, no password shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft.errors import SettingError, SyncError
from omnidraft.runtime.models.adapter_file import decode_adapter
from omnidraft.sync.installed import POINTER
from omnidraft.sync.store import Store, open_store
from support.adapters import adapter
from support.sync_world import (
    everything,
    fault,
    in_use,
    publish_number,
    pull_into,
    push_number,
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of a folder; of names that end in `cut` it sends the first half."""

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    def copyfile(self, source: object, outputfile: object) -> None:
        data = source.read()  # type: ignore[attr-defined]
        cut = self.path.endswith(self.server.cut)  # type: ignore[attr-defined]
        outputfile.write(data[: len(data) // 2] if cut else data)  # type: ignore[attr-defined]
        self.close_connection = True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    (tmp_path / "store").mkdir()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "store")))
    http.cut = "nothing"  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield http
    http.shutdown()
    thread.join()
    http.server_close()


def test_pulling_from_a_web_server(server: ThreadingHTTPServer, folder: Store, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    into = tmp_path / "dir"
    web = open_store(f"http://user:secret@127.0.0.1:{server.server_port}/")
    assert "secret" not in web.shown
    web = open_store(f"http://127.0.0.1:{server.server_port}/")
    assert fault(lambda: pull_into(web, into)) == "missing"
    publish_number(folder, 1)
    assert pull_into(web, into).outcome == "switched"
    assert decode_adapter(in_use(into)).digest == adapter(2, 1).digest
    publish_number(folder, 2)
    before = everything(into)
    for cut in (".safetensors", ".odc", "latest"):
        server.cut = cut  # type: ignore[attr-defined]
        with pytest.raises(SyncError):
            pull_into(web, into)
        now = everything(into)
        now[POINTER] = before[POINTER]  # it says which release was seen
        assert {name: now[name] for name in before} == before
    server.cut = "nothing"  # type: ignore[attr-defined]
    assert pull_into(web, into).outcome == "switched"
    words = "can only be read from"
    assert fault(lambda: push_number(web, tmp_path, 1), words) == "read_only"
    assert fault(lambda: publish_number(web, 3), words) == "read_only"
    port = server.server_port
    server.shutdown()
    server.server_close()
    gone = open_store(f"http://127.0.0.1:{port}/")
    refused = "cannot be reached (Connection refused)"
    assert fault(lambda: pull_into(gone, into), refused, "try again") == "unreachable"


def test_addresses_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is not a store"):
        open_store("nosuch://place")
    with pytest.raises(SettingError, match="needs a package that is not installed"):
        open_store("lakefs://place")
