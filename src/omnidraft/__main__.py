"""Entry point of `omnidraft` and `python -m omnidraft`: Ctrl-C is quiet also while modules load."""

import os
import signal
import threading
from types import FrameType


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    deferred = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if deferred:  # nothing is open at this point, so nothing has to unwind
        signal.signal(signal.SIGINT, _at_once)
    from omnidraft.cli import main as run

    run()


def _at_once(number: int, frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    main()
