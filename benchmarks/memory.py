"""The peak memory that `omnidraft inspect` states, beside that of a generation that fills the context.

    python -m benchmarks.memory BUNDLE...

Measured as `/usr/bin/time -v` does: the maximum resident set size of a child process (ru_maxrss). A small
process starts the child, because the child's maximum begins with that of the process that starts it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

WORDS = "one two three four "
# Runs without site packages in about 10 MB, which is less than any child.
LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measured(bundle: Bundle, *, drafter: bool) -> int:
    """Bytes at the peak of `omnidraft generate` with a prompt of 7/8 of the context and an answer.

    Raises:
        RuntimeError: the generation failed.
    """
    limit = bundle.target.kv.max_length
    tokenizer = LibraryTokenizer.from_file(bundle.file(bundle.target.tokenizer))
    times = limit * 7 // 8 * 16 // len(tokenizer.encode(16 * WORDS))
    command = [sys.executable, "-m", "omnidraft.cli", "generate", str(bundle.path)]
    command += [WORDS * times, "--raw", "-n", str(limit), "--json"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as settings:
        settings.write(f"drafter = {str(drafter).lower()}\n")
        settings.flush()
        command += ["--config", settings.name]
        launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
        child = subprocess.run(launched, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command[:5])} failed: {child.stderr.strip()}")
    output = json.loads(child.stdout)
    assert output["prompt_tokens"] + output["emitted"] > limit * 3 / 4, output["prompt_tokens"]
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return unit * int(child.stderr.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    print(f"{'bundle':24} {'drafter':8} {'stated MB':>10} {'measured MB':>12} {'ratio':>6}")
    for path in parser.parse_args().bundles:
        bundle = open_bundle(path)
        for drafter in (True, False):
            stated = memory_need(bundle, drafter=drafter).total
            peak = measured(bundle, drafter=drafter)
            which = "yes" if drafter else "no"
            print(
                f"{path.name:24} {which:8} {stated / 1e6:10.1f} {peak / 1e6:12.1f} {stated / peak:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
