"""Writers in processes of their own that are killed at any moment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from support.places import ROOT

KILLS = int(os.environ.get("OMNIDRAFT_KILLS", "20"))


def start_writer(kind: str, path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}
    # One thread, so that forking it is safe.
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    command = [sys.executable, str(ROOT / "tests/support/crash_writer.py"), kind, str(path)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def kill_once(writer: subprocess.Popen[str], wait: float) -> int:
    """Let a writer write, kill it after a while, and return the number of the last that it had finished."""
    assert writer.stdin is not None and writer.stdout is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()
    child, done = 0, 0
    for line in writer.stdout:
        if line == "gone\n":
            return done
        if line.startswith("done "):
            done = int(line.split()[1])
        else:
            child = int(line)
        if child and done and wait >= 0:  # its first write is done: from now on any moment will do
            time.sleep(wait)
            os.kill(child, signal.SIGKILL)
            wait = -1.0
    raise AssertionError("the writer ended by itself")


def fork_for_each_line(work: Callable[[], None]) -> None:
    """For each line of standard input, fork and print the child's id, which works; print `gone` at its end.

    Forking spares the start of an interpreter for each of many kills.
    """
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        os.write(1, f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"gone\n")
