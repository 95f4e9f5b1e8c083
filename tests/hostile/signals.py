"""Send signals to `omnidraft generate` at many moments: it ends at once, without a traceback.

PYTHONPATH=tests python -m hostile.signals BUNDLE [--moments 24]
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

STATUS = {
    signal.SIGINT: {130, -signal.SIGINT, 0},
    signal.SIGTERM: {143, -signal.SIGTERM, 0},
    signal.SIGHUP: {129, -signal.SIGHUP, 0},
}  # 0: it had ended
PATIENCE = 30.0
STARTING = "interpreter starting"  # before the first line of __main__.py no program can handle a signal


def ended(bundle: Path, cache: Path, number: signal.Signals | None, after: float) -> str:
    """How a generation ends that gets a signal after some seconds: a status, hang, traceback, or STARTING."""
    command = [sys.executable, "-m", "omnidraft", "generate", str(bundle), "How many legs do 3 cats have?"]
    process = subprocess.Popen(
        [*command, "-n", "200", "--cache", str(cache)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if number is not None:
        time.sleep(after)
        process.send_signal(number)
    try:
        _, error = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "hang"
    if b"<frozen runpy>" in error and b"__main__.py" not in error:
        return STARTING
    if b"Traceback" in error or b"ignored in" in error:
        sys.stdout.write(error.decode(errors="replace"))
        return "traceback"
    return str(process.returncode)


def main() -> int:
    """The command line; the exit status is 1 where a generation did not end well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--moments", type=int, default=24)
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    cache = Path(folder.name) / "learned.odc"
    started = time.monotonic()
    assert ended(options.bundle, cache, None, 0.0) == "0"
    whole, bad = time.monotonic() - started, 0
    for number, right in STATUS.items():
        seen = Counter(
            ended(options.bundle, cache, number, whole * (i + 0.5) / options.moments)
            for i in range(options.moments)
        )
        bad += sum(count for end, count in seen.items() if end not in {STARTING, *map(str, right)})
        print(f"{number.name:8} " + ", ".join(f"{end}: {count}" for end, count in sorted(seen.items())))
    folder.cleanup()
    print(f"{2 * options.moments} signals, {bad} ends that were not clean")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
