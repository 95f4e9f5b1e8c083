"""Host work of a round in Python, Kotlin and Swift on the same rows, in turns: a table in Markdown.

    python -m scripts.phones.host_work [--turns N]    # after make android and make ios; OMNIDRAFT_DATA is set

Each program prints medians of its rounds: translate, verify, learn and rewind. The table has the least and
the largest median of the turns.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / ".cache" / "ios" / "host_work.safetensors"  # in Swift's root the directory is /out
LINE = re.compile(r"(\w+) rows, (greedy|T = [\d.]+), (cold|full) cache\s+(.*)")
Key = tuple[str, str, str]  # rows, temperature, cache
SWIFT = """
. scripts/ios/common.sh
export VARIABLES=OMNIDRAFT_HOST_WORK=/out/host_work.safetensors
swift_package test --skip-build --disable-swift-testing --filter HostWorkBenchmark
"""
COMMANDS = {
    "Swift": ["bash", "-c", SWIFT],
    "Kotlin (JVM)": ["bash", "scripts/android/program.sh", "decoding.HostWorkBenchmarkKt", str(MAP)],
    "Python": [sys.executable, "-m", "benchmarks.host_overhead", "--json"],
}


def key_of(rows: str, temperature: str, cache: str) -> Key:
    """The same name in every language."""
    return rows, "0" if temperature == "greedy" else f"{float(temperature.removeprefix('T = ')):g}", cache


def medians(language: str, output: str) -> Iterator[tuple[Key, float, float]]:
    """Milliseconds of host work and tokens of a round."""
    if language == "Python":
        for name, figures in json.loads(output).items():
            rows, temperature, cache = name.split(", ")
            key = key_of(rows.removesuffix(" rows"), temperature, cache.removesuffix(" cache"))
            yield key, figures["host"], figures["emitted"]
        return
    for line in output.splitlines():
        if found := LINE.match(line):
            cells = found[4].split()
            yield key_of(found[1], found[2], found[3]), float(cells[3]), float(cells[-1])


def measured(turns: int) -> dict[Key, dict[str, list[tuple[float, float]]]]:
    """What each language printed in each turn."""
    found: dict[Key, dict[str, list[tuple[float, float]]]] = {}
    for _ in range(turns):
        for language, command in COMMANDS.items():
            run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
            lines = list(medians(language, run.stdout))
            if len(lines) != 8:
                sys.exit(f"{language} printed {len(lines)} lines of 8:\n{run.stdout}")
            for key, host, emitted in lines:
                found.setdefault(key, {}).setdefault(language, []).append((host, emitted))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=3, help="runs of each program")
    options = parser.parse_args()
    subprocess.run(
        [sys.executable, "-m", "benchmarks.host_overhead", "--map", str(MAP)], cwd=ROOT, check=True
    )
    print(f"| rows | T | cache | tokens a round | {' | '.join(COMMANDS)} |\n{'|---' * (4 + len(COMMANDS))}|")
    for (rows, temperature, cache), by in measured(options.turns).items():
        emitted = sorted({f"{tokens:.1f}" for runs in by.values() for _, tokens in runs})
        cells = [f"{min(runs)[0]:.2f}-{max(runs)[0]:.2f}" for runs in by.values()]
        print(f"| {rows} | {temperature} | {cache} | {', '.join(emitted)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
