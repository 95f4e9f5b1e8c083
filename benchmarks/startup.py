"""Sizes of bundles, and CPU seconds and peak memory of `omnidraft generate BUNDLE hi -n 1`, before and now.

    python -m benchmarks.startup [--repeat N] [--json] [NAME=BUNDLE[,BEFORE]...]

Without bundles it exports these into a temporary directory, in fp32 and int4: both starter targets with
their drafter, and small random models with the vocabularies of Qwen2 (target) and Llama-2 (drafter), which
needs the task data (OMNIDRAFT_DATA). *Before* is with every file hashed, without compiled tokenizers, and
int4 with float32 embeddings and a tied head stored again, as it was the default once; a bundle that is named
alone is compared with itself without compiled tokenizers. *Now* files are known by their stamps. Each number
is the smallest of N runs (seconds) or the largest (memory); the arms take turns.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.support.small_models import SIZES
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed

# Runs without site packages in about 10 MB, since a child's maximum begins with that of its parent.
LAUNCHER = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
STARTERS = Path(__file__).resolve().parents[1] / "examples/starters"
ROLES = ("target", "drafter")
ARMS = ("before", "now")


@dataclass(frozen=True)
class Startup:
    """One way to start a bundle.

    Attributes:
        bundle: its name.
        arm: of ARMS.
        target_megabytes, drafter_megabytes: graph and weights of each model.
        bundle_megabytes: all files.
        cpu_seconds: user and system time of the process, the least of all runs.
        peak_megabytes: maximum resident set size, the largest of all runs.
    """

    bundle: str
    arm: str
    target_megabytes: float
    drafter_megabytes: float
    bundle_megabytes: float
    cpu_seconds: float
    peak_megabytes: float


def one_run(bundle: Path, work: Path, verify: str) -> tuple[float, float]:
    """CPU seconds and peak MB of one generation of one token.

    Args:
        bundle: its directory.
        work: holds compiled modules, as an installed package has them beside its sources, and what a device
            remembers of bundles.
        verify: how the files are checked.
    """
    command = [sys.executable, "-m", "omnidraft", "generate", str(bundle), "hi", "-n", "1", "--json"]
    (work / "settings.toml").write_text(f'verify = "{verify}"\n')
    command += ["--config", str(work / "settings.toml")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    child = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *command],
        capture_output=True,
        text=True,
        check=False,
        env={
            **environment,
            "PYTHONPYCACHEPREFIX": str(work / "pycache"),
            "OMNIDRAFT_STATE": str(work / "state"),
        },
    )
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {child.stderr.strip()}")
    seconds, peak = child.stdout.split()[-2:]
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return float(seconds), unit * int(peak) / 1e6


def measure(name: str, now: Path, before: Path, repeat: int, work: Path) -> Iterator[Startup]:
    """Both arms of a bundle, in turns, after a run of each that is not counted."""
    places = {"before": before, "now": now}
    runs: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    for turn in range(repeat + 1):
        for arm in ARMS:
            run = one_run(places[arm], work, "stamp" if arm == "now" else "full")
            runs[arm] += [run] if turn else []
    for arm in ARMS:
        seconds, peaks = zip(*runs[arm], strict=True)
        yield Startup(name, arm, *megabytes(places[arm]), min(seconds), max(peaks))


def megabytes(bundle: Path) -> tuple[float, float, float]:
    """Of the target's graph and weights, of the drafter's, and of all files."""
    files = open_bundle(bundle).manifest["files"]
    sizes = {name: record["bytes"] / 1e6 for name, record in files.items()}
    parts = [sum(size for name, size in sizes.items() if name.startswith(f"{role}/cpu/")) for role in ROLES]
    return parts[0], parts[1], sum(sizes.values())


def without_compiled(bundle: Path, out: Path) -> Path:
    """A copy of a bundle whose manifest names no compiled tokenizers, so that tokenizer.json is parsed."""
    shutil.copytree(bundle, out)
    opened = open_bundle(bundle)
    if opened.places.shared is not None:
        shutil.copytree(opened.places.shared, out / "drafter")
    manifest = dict(opened.manifest)
    files = dict(manifest["files"])
    for role in ROLES:
        compiled = manifest[role]["compiled_tokenizer"]
        if compiled is None:
            raise SystemExit(f"{bundle} has no compiled tokenizer of its {role} to compare with")
        manifest[role] = {**manifest[role], "compiled_tokenizer": None}
        del files[compiled]
        (out / compiled).unlink()
    manifest["files"] = files
    (out / MANIFEST).write_bytes(sealed(manifest))
    return out


def small_checkpoint(tokenizer: Path, vocab_size: int, out: Path, width: int = 64) -> Path:
    """A random Llama of 2 layers, so wide, with the tokenizer of another model."""
    import torch
    import transformers

    torch.manual_seed(0)
    heads = {"num_attention_heads": width // 16, "num_key_value_heads": max(1, width // 32)}
    sizes = {**SIZES, **heads, "vocab_size": vocab_size, "tie_word_embeddings": True, "hidden_size": width}
    config = transformers.AutoConfig.for_model("llama", **sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(out)
    shutil.copy(tokenizer / "tokenizer.json", out / "tokenizer.json")
    return out


def made_bundles(work: Path) -> dict[str, tuple[Path, Path]]:
    """The bundles that are measured where none is named, now and before."""
    from benchmarks.support.task_data import require
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantize import FP32, INT4, INT4_E8

    data = require("tokenizers")
    pairs = {f"starter-{name}": (STARTERS / name, STARTERS / "drafter") for name in ("a", "b")}
    pairs["qwen2 x llama2"] = (
        small_checkpoint(data / "qwen2", 151_936, work / "qwen2"),
        small_checkpoint(data / "llama2", 32_000, work / "llama2"),
    )
    bundles = {}
    for name, (target, drafter) in pairs.items():
        made = []
        for form in (FP32, INT4, INT4_E8):
            made.append(work / f"{name.replace(' ', '')}-{form.name}")
            export_bundle(str(target), str(drafter), made[-1], Options(form, form))
        bundles[f"{name}, fp32"] = made[0], made[0]
        bundles[f"{name}, int4"] = made[2], made[1]
    return bundles


def named_bundles(arguments: list[str]) -> dict[str, tuple[Path, Path]]:
    """Bundles given as NAME=BUNDLE or NAME=BUNDLE,BEFORE."""
    bundles = {}
    for name, _, places in (each.partition("=") for each in arguments):
        now, _, before = places.partition(",")
        bundles[name] = Path(now), Path(before or now)
    return bundles


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="*", metavar="NAME=BUNDLE[,BEFORE]")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        rows: list[Startup] = []
        for name, (now, before) in (named_bundles(options.bundles) or made_bundles(work)).items():
            parsed = without_compiled(before, work / f"{len(rows)}-before")
            rows += measure(name, now, parsed, options.repeat, work)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print("| bundle | | target MB | drafter MB | bundle MB | CPU seconds | peak MB |\n|" + "---|" * 7)
    for row in rows:
        sizes = f"{row.target_megabytes:.1f} | {row.drafter_megabytes:.2f} | {row.bundle_megabytes:.1f}"
        print(f"| {row.bundle} | {row.arm} | {sizes} | {row.cpu_seconds:.2f} | {row.peak_megabytes:.0f} |")


if __name__ == "__main__":
    main()
