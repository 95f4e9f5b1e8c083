"""Sizes of the archives of the starter bundles for each device: download, disk, memory.

    python -m benchmarks.export.archives [--json] [NAME=BUNDLE...]

Without bundles it exports both starter targets in float32 with the int8 drafter, a training step, .ort files
and static graphs for QNN and CoreML (half an hour on two cores), and lets them share the drafter. Sizes do
not depend on the machine.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from omnidraft.errors import BundleError
from omnidraft.packing.device_files import PackOptions
from omnidraft.packing.share_drafter import share_drafter
from omnidraft.packing.write_archive import pack
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.parts.pack_index import DEVICES, ONLY, WITH, WITHOUT

STARTERS = Path(__file__).resolve().parents[2] / "examples/starters"
WHOLE = "whole bundle"
_MB = 1e6


@dataclass(frozen=True)
class ArchiveSizes:
    """Sizes of one archive, in bytes.

    Attributes:
        bundle: its name.
        what: the whole bundle, or a device with options.
        files: number of the bundle's files.
        download: the archive; the sum of the files for the whole bundle.
        on_disk: the unpacked files.
        memory: at the peak of a generation, without Python and onnxruntime.
    """

    bundle: str
    what: str
    files: int
    download: int
    on_disk: int
    memory: int


def sizes_of(name: str, bundle: Path) -> Iterator[ArchiveSizes]:
    """The whole bundle, then each archive that it can be packed into."""
    opened = open_bundle(bundle)
    total = sum(record["bytes"] for record in opened.manifest["files"].values())
    need = memory_need(opened)
    yield ArchiveSizes(name, WHOLE, len(opened.manifest["files"]), total, total, need.total - need.base)
    for options in _archives():
        with tempfile.TemporaryDirectory() as place:
            try:
                packed = pack(bundle, Path(place) / "x.zip", options)
            except BundleError as error:
                sys.stderr.write(f"{name}: {error}\n")
                continue
        memory = packed.memory.total - packed.memory.base
        yield ArchiveSizes(name, _name(options), packed.files, packed.download, packed.on_disk, memory)


def _archives() -> Iterator[PackOptions]:
    """Each device with all it needs; then one device without learning, and in parts."""
    yield from (PackOptions(device) for device in DEVICES)
    yield PackOptions("android-cpu", learning=False)
    yield from (PackOptions("android-cpu", drafter) for drafter in (WITHOUT, ONLY))


def _name(options: PackOptions) -> str:
    learning = "" if options.learning else " --no-learning"
    drafter = "" if options.drafter == WITH else f" --drafter {options.drafter}"
    return f"{options.device}{drafter}{learning}"


def table(rows: list[ArchiveSizes]) -> str:
    """The sizes as a Markdown table, in MB."""
    lines = [
        "| bundle | `--for` | files | download, MB | on disk, MB | memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        sizes = " | ".join(f"{size / _MB:.1f}" for size in (row.download, row.on_disk, row.memory))
        lines.append(f"| {row.bundle} | {row.what} | {row.files} | {sizes} |")
    return "\n".join(lines)


def starter_bundles(place: Path) -> dict[str, Path]:
    """Both starter targets with everything that an archive may hold; their drafter is shared."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.npu.npu_providers import accelerators
    from omnidraft.export.options import USUAL_RANK, Options
    from omnidraft.export.quantize.quantize import FP32, INT8

    bundles = {}
    for name in ("a", "b"):
        options = Options(
            FP32, INT8, train_rank=USUAL_RANK, npu=NpuOptions(accelerators(["all"]), None, None, 4)
        )
        bundles[f"starter-{name}"] = place / f"starter-{name}"
        export_bundle(str(STARTERS / name), str(STARTERS / "drafter"), place / f"starter-{name}", options)
        share_drafter(place / f"starter-{name}")
    return bundles


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("bundles", nargs="*", metavar="NAME=BUNDLE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        named = dict(each.split("=", 1) for each in options.bundles) or starter_bundles(Path(place))
        rows = [row for name, bundle in named.items() for row in sizes_of(name, Path(bundle))]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
