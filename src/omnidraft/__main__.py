"""The command `omnidraft`, and `python -m omnidraft`: quiet about Ctrl-C while it loads, too."""

import os
import signal
import threading


def main() -> None:
    """Load the command line and run it."""
    before = signal.getsignal(signal.SIGINT)
    waits = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if waits:  # nothing is open yet, and half-loaded modules need not unwind
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from omnidraft.cli import main as run

    if waits:
        signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
