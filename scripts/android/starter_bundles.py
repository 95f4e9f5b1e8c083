"""Export the starter bundles that the tests and the sample of a phone use, in one process.

It traces the drafter once and each target once, which is most of the work. The costs are those of Python's
fixtures: measured ones differ from run to run, and with them what is drafted.

    PYTHONPATH=tests python scripts/android/starter_bundles.py FOLDER

FOLDER gets `a` and `b` in float32, b with static graphs too, `half`, which is a with float16 keys and values,
`alone`, which is a without a drafter, `long`, which is a with 472 MB of keys and values, and `learning`,
starter a with an int8 drafter that can learn; then `starter-a.zip`, which is `learning` for a phone, and
`unpacked`, that archive unpacked.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from omnidraft import cli
from support.manifests import rewrite
from support.places import STARTERS
from support.starter_bundles import COSTS

DRAFTER = STARTERS / "drafter"
LONG = 38_400  # positions; the checkpoint has 1,024
FORMS: dict[str, tuple[str | Path, ...]] = {
    "a": ("a", DRAFTER, "--quant", "fp32"),
    "alone": ("a", "none", "--quant", "fp32"),
    "learning": ("a", DRAFTER, "--quant", "fp32", "--drafter-quant", "int8", "--train-step"),
    "b": ("b", DRAFTER, "--quant", "fp32", "--npu", "nnapi"),
}


def command(*arguments: str | Path) -> None:
    """Run a command of omnidraft in this process; the process ends where the command fails."""
    sys.argv = ["omnidraft", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as stop:
        if stop.code:
            raise


def export(target: Path, drafter: str | Path, place: Path, *options: str | Path) -> None:
    """Export a bundle, with fixed costs."""
    command("export", target, "-d", drafter, "-o", place, *options)
    rewrite(place, lambda manifest: manifest["costs"].update(COSTS))


def long_context(place: Path) -> Path:
    """A copy of starter a whose configuration has more positions than it was trained on."""
    shutil.copytree(STARTERS / "a", place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"max_position_embeddings": LONG}))
    return place


def main(folder: Path) -> None:
    for name, (target, drafter, *options) in FORMS.items():
        export(STARTERS / target, drafter, folder / name, *options)
    with TemporaryDirectory() as work:
        settings = Path(work) / "half.toml"
        settings.write_text("half_kv = true\n")
        export(STARTERS / "a", DRAFTER, folder / "half", "--quant", "fp32", "--config", settings)
        source = long_context(Path(work) / "a")
        export(source, DRAFTER, folder / "long", "--quant", "fp32", "--max-length", str(LONG))
    command("pack", folder / "learning", "--for", "android-cpu", "-o", folder / "starter-a.zip")
    command("unpack", folder / "starter-a.zip", "-o", folder / "unpacked")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
