"""Ctrl-C, SIGTERM and SIGHUP end the program at any moment, also while the main thread is inside onnxruntime.

Python runs a signal handler between two of its own instructions, and a run of a graph is one of them. So a
thread reads the signals as they arrive and ends the run; then the main thread gets to the handler.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec

import typer

STATUS = {  # Windows has no SIGHUP, which the end of a terminal sends
    number: 128 + number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")
}
ATTEMPTS, AGAIN = 3, 0.1  # to end what goes on, and seconds between them
_ENGINE = "omnidraft.runtime.models.engine_run"


class StopSignals:
    """What a signal does: unwind the stack, or end the process at once.

    Attributes:
        at_once: nothing is open, so nothing has to unwind: while modules are imported, while graphs are
            loaded, and after the work.
    """

    at_once = False

    def handle(self, number: int, frame: FrameType | None = None) -> None:
        """End the process with its status, or raise what ends the command."""
        if self.at_once:
            os._exit(STATUS[signal.Signals(number)])
        if _imports(frame):  # what is raised there would become an ImportError, or be lost
            _send_later(number)
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(STATUS[signal.Signals(number)])

    def arrived(self, number: int) -> None:
        """In a thread of its own: what a handler would do, where the main thread may not get to it."""
        if number not in STATUS:
            return
        if self.at_once:
            os._exit(STATUS[signal.Signals(number)])
        engine = sys.modules.get(_ENGINE)  # importing it here could wait for the main thread
        end_all = getattr(engine, "end_all", None)  # None also while the engine is being imported
        if end_all is None:
            return
        for _ in range(ATTEMPTS):  # another thread may be between two runs
            end_all()
            time.sleep(AGAIN)

    def lost(self, event: Any) -> None:
        """A callback of the interpreter swallowed what the handler raised: the signal is sent again."""
        number = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}.get(event.exc_type)
        if number is None:
            sys.__unraisablehook__(event)
        else:
            _send_later(number)


STOP = StopSignals()


@contextmanager
def stop_signals() -> Iterator[None]:
    """Handle these signals as above while a command runs, in the main thread; afterwards all is as before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    # A shell's background process ignores Ctrl-C, and one of `nohup` the end of the terminal.
    ours = [number for number in STATUS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, STOP.handle) for number in ours}
    wakeup, hook = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False), sys.unraisablehook
    sys.unraisablehook = STOP.lost
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()
    try:
        yield
    finally:
        STOP.at_once = True
        signal.set_wakeup_fd(wakeup)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
        writing.close()  # the thread reads the end
        STOP.at_once = False


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside, a signal ends the process without unwinding: nothing may be open that has to be closed."""
    before, STOP.at_once = STOP.at_once, True
    try:
        yield
    finally:
        STOP.at_once = before


def _watch(reading: socket.socket) -> None:
    with reading:
        while numbers := reading.recv(64):
            for number in numbers:
                STOP.arrived(number)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_later(number: int) -> None:
    timer = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


P = ParamSpec("P")


@contextmanager
def telling(describe: Callable[[], str]) -> Iterator[None]:
    """Inside, Ctrl-C ends the command with a sentence.

    Args:
        describe: what was kept, and how to go on. Nothing is printed where it returns an empty text.
    """
    try:
        yield
    except KeyboardInterrupt:
        if sentence := describe():
            sys.stderr.write(f"omnidraft: stopped; {sentence}\n")
        raise typer.Exit(130) from None


def tells_when_interrupted(
    describe: Callable[[Mapping[str, Any]], str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorator of a command that can be interrupted."""

    def decorate(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def run(*args: P.args, **values: P.kwargs) -> None:
            with telling(lambda: describe(values)):
                command(*args, **values)

        return run

    return decorate
