"""A process for one attempt: bounded in time and memory, and whatever happens in it has a name."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from omnidraft.errors import OmnidraftError

SECONDS = 5.0  # of computing
PATIENCE, LEAST = 10.0, 0.02  # seconds of waiting in which a process that is not stuck computes so long
MEMORY = 500_000_000  # bytes that the address space may grow by
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
    data, hung = _answer(reading, child)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    seconds, growth = used.ru_utime + used.ru_stime, 0.0
    if data:
        kind, text, growth = json.loads(data)
    elif hung or os.WTERMSIG(status) == signal.SIGXCPU:
        kind, text = "hang", ""
    else:
        kind, text = "killed", f"by signal {os.WTERMSIG(status)}"
    if kind in ("done", "refused") and growth * 1e6 > MEMORY:
        kind = "memory"
    return Outcome(kind, text, seconds, growth)


def _answer(reading: int, child: int) -> tuple[bytes, bool]:
    """What a child writes, and whether it is stuck: on a busy machine it may take long, but it computes."""
    data, used = b"", -1.0
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if select.select([pipe], [], [], PATIENCE)[0]:
                part = pipe.read(1 << 16)
                if not part:
                    return data, False
                data += part
                continue
            before, used = used, _computed(child)
            if used - before < LEAST:
                return data, True


def _computed(process: int) -> float:
    """Seconds that a process has computed."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _inside(action: Callable[[], object]) -> tuple[str, str, float]:
    """Kind, text and growth of memory in MB of an action; nothing of it reaches the terminal."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    before, size = used.ru_maxrss, _address_space()
    seconds = int(used.ru_utime + used.ru_stime + SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if size is not None:
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
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
    if "Warning" in printed.getvalue() or "Traceback" in printed.getvalue():
        kind, text = "traceback", printed.getvalue()[-400:]
    if SECRET in text:
        kind = "secret"
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return kind, text[:2000], growth / (1e6 if sys.platform == "darwin" else 1e3)


def _address_space() -> int | None:
    """Bytes of the address space now; None where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None
