"""`omnidraft serve`: what it refuses before it listens, and a server that curl asks and a signal ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.serve.listen import bound_socket
from support.command_line import Run, config, refused

KEY = "a-key-of-some-length"


def test_what_would_be_unsafe_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        refused(run("serve", "no-bundle", "--host", host), f"host {host}", "OMNIDRAFT_API_KEY")
    refused(run("serve", "no-bundle", "--host", "my-machine"), "is not an address")
    for key in ("short", "a key with some spaces", "ä" * 20, "x" * 2000):
        monkeypatch.setenv("OMNIDRAFT_API_KEY", key)
        result = run("serve", "no-bundle", "--host", "0.0.0.0")
        refused(result, "OMNIDRAFT_API_KEY")
        assert key not in result[2]
    monkeypatch.delenv("OMNIDRAFT_API_KEY")
    refused(run("serve", "no-bundle", *config(key_file=tmp_path / "absent")), "key_file", "absent")


def test_other_settings_are_refused(run: Run, bundle: Path) -> None:
    refused(run("serve", bundle, "--port", 70000), "port 70000")
    refused(run("serve", bundle, *config(queue=-1)), "queue -1")
    refused(run("serve", bundle, *config(quue=1)), "did you mean queue?")
    refused(run("serve", bundle, *config(temperature=-1.0)), "temperature")
    refused(run("serve", "no-bundle", "--port", 0), "no-bundle")
    with bound_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        refused(run("serve", bundle, "--port", port), f"port {port}", "in use")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_answers_curl_until_a_signal_ends_it(number: signal.Signals, bundle: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    environment = {**os.environ, "OMNIDRAFT_API_KEY": KEY}
    command = [sys.executable, "-m", "omnidraft", "serve", str(bundle), "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = None
        while address is None and (line := process.stderr.readline()):
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert address
        body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 4}
        asked = [
            curl, "-sSN", f"{address[0]}/v1/chat/completions", "-H", "Content-Type: application/json",
            "-H", f"Authorization: Bearer {KEY}", "-d", json.dumps(body),
        ]  # fmt: skip
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=120).stdout
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait(60) == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert answer.startswith("data: {") and answer.endswith("data: [DONE]\n\n") and rest == ""
