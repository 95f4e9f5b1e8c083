"""Seconds and memory of opening a bundle with Llama-3's tokenizer in the Android library, on a desktop JVM.

    python -m benchmarks.export.phone_open [--repeat N]

It takes the classes of `make android`, and Llama-3's tokenizer from the task data (OMNIDRAFT_DATA). It
exports a target of random weights, 2 layers and 16 wide, with the starter drafter, so that nearly all the
memory is that of the runtime, the tokenizers and the vocabulary map. The program `FirstText` opens it N + 1
times: first with an empty state directory, when all files are hashed and the models are timed, then with
what the first run remembered. It prints times on the clock and, in parentheses, on the processor.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from benchmarks.startup import STARTERS, small_checkpoint
from benchmarks.support.task_data import require
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import FP32

PROGRAM = Path(__file__).resolve().parents[2] / "scripts/android/program.sh"
VOCAB_SIZE, WIDTH = 128_256, 16


def made_bundle(work: Path) -> Path:
    """The bundle, below a directory for temporary files."""
    target = small_checkpoint(require("tokenizers") / "llama3", VOCAB_SIZE, work / "target", WIDTH)
    bundle = work / "bundle"
    export_bundle(str(target), str(STARTERS / "drafter"), bundle, Options(FP32))
    return bundle


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        bundle = made_bundle(work)
        for model in ("target", "drafter"):
            print(f"{model}: {megabytes(bundle / model / 'cpu'):.1f} MB of weights")
        (work / "state").mkdir(mode=0o700)
        for turn in range(options.repeat + 1):
            print(
                "with the state of the first run:" if turn else "with an empty state directory:", flush=True
            )
            subprocess.run([PROGRAM, "session.FirstTextKt", bundle, work / "state"], check=True)


if __name__ == "__main__":
    main()
