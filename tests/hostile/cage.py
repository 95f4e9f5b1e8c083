"""A process for one attempt: bounded in time and memory, and whatever happens in it has a name.

Memory is watched, not limited: a limit of the system would make the engine refuse what nothing else refuses,
and the attempt would count as refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from omnidraft.errors import OmnidraftError

SECONDS = 5.0  # of computing
PATIENCE, LEAST = 10.0, 0.02  # seconds of waiting in which a process that is not stuck computes so long
TICK = 0.02  # seconds between two looks at the memory of a process
MEMORY = 500_000_000  # bytes that resident memory may grow by
SECRET = "TOP-SECRET-0123456789"  # content of files that no attempt may read
_MOST = 1 << 20  # bytes of an answer


@dataclass(frozen=True)
class Outcome:
    """What an attempt did.

    Attributes:
        kind: `done`, `refused`, or one of `BAD`.
        text: the value, the sentence, or where it broke.
        seconds: of computing.
        megabytes: by which resident memory grew.
    """

    kind: str
    text: str
    seconds: float
    megabytes: float


BAD = ("traceback", "hang", "killed", "secret", "memory")


def attempt(action: Callable[[], object]) -> Outcome:
    """Run an action in a child and say what became of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, json.dumps(_inside(action))[:_MOST].encode())
        os._exit(0)
    os.close(writing)
    data, stuck = _answer(reading, child)
    if stuck:
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    seconds, growth = used.ru_utime + used.ru_stime, 0.0
    if data:
        kind, text, growth = json.loads(data)
    elif stuck == "memory":
        kind, text, growth = stuck, "it was stopped here, by nothing else", MEMORY / 1e6
    elif stuck or os.WTERMSIG(status) == signal.SIGXCPU:
        kind, text = "hang", ""
    else:
        kind, text = "killed", f"by signal {os.WTERMSIG(status)}"
    if kind in ("done", "refused") and growth * 1e6 > MEMORY:
        kind = "memory"
    return Outcome(kind, text, seconds, growth)


def _answer(reading: int, child: int) -> tuple[bytes, str]:
    """What a child writes, and why it must be stopped, if it must.

    On a busy machine it may take long, but it computes.
    """
    data, used, asked, begun = b"", -1.0, time.monotonic(), _resident(child)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if select.select([pipe], [], [], TICK)[0]:
                part = pipe.read(1 << 16)
                if not part:
                    return data, ""
                data += part
                asked = time.monotonic()
            if _resident(child) - begun > MEMORY:
                return b"", "memory"
            if time.monotonic() - asked > PATIENCE:
                before, used, asked = used, _computed(child), time.monotonic()
                if used - before < LEAST:
                    return data, "hang"


def _resident(process: int) -> int:
    """Bytes of a process that are in memory; 0 where the system does not say."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _computed(process: int) -> float:
    """Seconds that a process has computed."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _inside(action: Callable[[], object]) -> tuple[str, str, float]:
    """Kind, text and growth of memory in MB of an action; nothing of it reaches the terminal."""
    null, said = os.open(os.devnull, os.O_WRONLY), os.memfd_create("said")
    os.dup2(null, 1)
    os.dup2(said, 2)  # libraries write there by themselves
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = used.ru_maxrss
    seconds = int(used.ru_utime + used.ru_stime + SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            value = action()
        kind, text = "done", repr(value)
    except OmnidraftError as error:
        kind, text = "refused", str(error)
        if not text.isprintable():
            kind = "traceback"
    except BaseException as error:  # pyo3's panics are no Exception
        last = traceback.extract_tb(sys.exc_info()[2])[-1]
        kind, text = "traceback", f"{type(error).__name__}: {error!s:.200} at {last.filename}:{last.lineno}"
    heard = printed.getvalue() + os.pread(said, _MOST, 0).decode("utf-8", "replace")
    if any(word in heard for word in ("Warning", "Traceback", "panicked")):
        kind, text = "traceback", heard[-400:]
    if SECRET in text:
        kind = "secret"
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return kind, text[:2000], growth / (1e6 if sys.platform == "darwin" else 1e3)
