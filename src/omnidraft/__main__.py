"""Entry point of `omnidraft` and `python -m omnidraft`: Ctrl-C is quiet also while modules load."""

import os
import signal
import sys
import threading
from types import FrameType


def main() -> None:
    """Load the command line and run it."""
    _open_closed_streams()
    # Threads of torch that wait must not spin: beside other work an export took six times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    before = signal.getsignal(signal.SIGINT)
    deferred = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if deferred:  # nothing is open at this point, so nothing has to unwind
        signal.signal(signal.SIGINT, _at_once)
    from omnidraft.cli import main as run

    run()


def _open_closed_streams() -> None:
    """Open the standard streams that were closed (`>&-`), so that no other file gets their numbers.

    Standard input is empty then, standard error loses what is written, and writing to standard output fails.
    """
    streams = ("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")
    for number, (name, flags, mode) in enumerate(streams):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _at_once(number: int, frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    main()
