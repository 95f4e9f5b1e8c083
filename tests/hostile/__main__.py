"""Run every attempt on a bundle, and print what became of them; the exit status is 1 if one was bad.

PYTHONPATH=tests python -m hostile BUNDLE [--area AREA] [--only WORD] [--verbose]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile import bundle_attacks, file_attacks, gguf_attacks, graph_attacks, tokenizer_attacks
from hostile.cage import BAD, Outcome, attempt

Attempt = tuple[str, Callable[[], object]]
AREAS: dict[str, Callable[[Path, Path], Iterator[Attempt]]] = {
    "manifests": bundle_attacks.manifests,
    "graphs": bundle_attacks.graphs,
    "wire": graph_attacks.wire,
    "sizes": graph_attacks.sizes,
    "left out": graph_attacks.left_out,
    "tokenizers": tokenizer_attacks.tokenizers,
    "adapters": file_attacks.adapters,
    "caches": file_attacks.caches,
    "traces": file_attacks.traces,
    "maps": file_attacks.maps,
    "sessions": file_attacks.sessions,
    "gguf": gguf_attacks.gguf_files,
}


def outcomes(bundle: Path, area: str = "", only: str = "") -> Iterator[tuple[str, str, Outcome]]:
    """Area, name and outcome of every attempt.

    Args:
        bundle: a whole one, which is not changed.
        area: attempts of this area only; empty for all.
        only: attempts whose name contains this.
    """
    with tempfile.TemporaryDirectory() as folder:
        base, work = Path(folder) / "bundle", Path(folder) / "work"
        shutil.copytree(bundle, base)
        for name, attempts in AREAS.items():
            if area not in ("", name):
                continue
            work.mkdir()
            for what, action in attempts(base, work):
                if only in what:
                    yield name, what, attempt(action)
                for each in work.iterdir():  # a copy is not needed again
                    if each.is_dir():
                        shutil.rmtree(each)
            shutil.rmtree(work)


def main() -> int:
    """The command line; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--area", default="", choices=["", *AREAS], help="attempts of this area only")
    parser.add_argument("--only", default="", help="attempts whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="print every attempt")
    options = parser.parse_args()
    counts, started, worst = defaultdict[str, Counter[str]](Counter), time.monotonic(), [0.0, 0.0]
    for area, name, outcome in outcomes(options.bundle, options.area, options.only):
        counts[area][outcome.kind] += 1
        worst = [max(worst[0], outcome.seconds), max(worst[1], outcome.megabytes)]
        if options.verbose or outcome.kind in BAD:
            used = f"{outcome.seconds:5.1f} s {outcome.megabytes:6.0f} MB"
            print(f"{outcome.kind:9} {used}  {name}: {outcome.text:.300}", flush=True)
    for area, seen in counts.items():
        print(f"{area:12} " + ", ".join(f"{kind} {count}" for kind, count in sorted(seen.items())))
    total = sum(counts.values(), Counter[str]())
    bad = ", ".join(f"{total[kind]} {kind}" for kind in BAD)
    print(
        f"{total.total()} attempts in {time.monotonic() - started:.0f} s: {bad}; "
        f"at most {worst[0]:.1f} s of computing and {worst[1]:.0f} MB"
    )
    return int(any(total[kind] for kind in BAD))


if __name__ == "__main__":
    sys.exit(main())
