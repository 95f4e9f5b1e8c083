"""Entry point of `omnidraft` and `python -m omnidraft`: Ctrl-C is quiet also while modules load."""

import os
import signal
import threading


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    deferred = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if deferred:  # nothing is open at this point, so nothing has to unwind
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from omnidraft.cli import main as run

    if deferred:
        signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
