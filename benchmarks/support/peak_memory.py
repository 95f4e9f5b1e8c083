"""The peak memory of a process of its own."""

import subprocess
import sys

# A child's maximum begins with that of its parent, so a process without site packages, of 10 MB, starts it.
_LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_of(module: str, *arguments: str) -> tuple[str, int]:
    """What a module of Python prints when it runs, and its maximum resident set size in bytes.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed: {done.stderr.strip()}")
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return done.stdout, unit * int(done.stderr.split()[-1])
