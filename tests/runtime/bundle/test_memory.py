"""The memory that is computed before loading is the memory that is used; and what happens if it is short."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.memory import available_bytes, memory_need, why_plain
from support.command_line import config
from support.places import ROOT

TOLERANCE = 0.15

# The high-water mark of the child's own memory: ru_maxrss begins with that of the process it came from.
CHILD = """
import sys
from pathlib import Path
from omnidraft.cli import main
sys.argv = ["omnidraft", *sys.argv[1:]]
try:
    main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print(*(line.split()[1] for line in lines if line.startswith("VmHWM:")), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def real_vocabularies(data: Path, export_packages: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small random models in int4 with Qwen2's vocabulary (151,936 tokens) and Llama-2's (32,000)."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import INT4
    from support.small_checkpoint import small_checkpoint

    place = tmp_path_factory.mktemp("real")
    target = small_checkpoint(data / "tokenizers/qwen2", 151_936, place / "qwen2")
    drafter = small_checkpoint(data / "tokenizers/llama2", 32_000, place / "llama2")
    export_bundle(str(target), str(drafter), place / "bundle", Options(INT4, max_length=128))
    return place / "bundle"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("drafter", [True, False])
@pytest.mark.parametrize("made", ["bundle", "real_vocabularies"])
def test_the_peak_is_what_was_told(made: str, drafter: bool, request: pytest.FixtureRequest) -> None:
    """Of a generation that fills the context, as GNU time would measure it."""
    bundle: Path = request.getfixturevalue(made)
    opened = open_bundle(bundle)
    limit = opened.target.kv.max_length
    arguments = [
        "generate",
        str(bundle),
        "one two three four " * (limit // 12),
        "--raw",
        "-n",
        "999",
        "--json",
    ]
    arguments += ["-k", "4"] if drafter else list(map(str, config(drafter=False)))
    child = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    output = json.loads(child.stdout)
    assert output["prompt_tokens"] + output["emitted"] > limit / 2
    assert (output["drafted"] > 0) == drafter
    measured = 1024 * int(child.stderr.split()[-1])
    estimate = memory_need(opened, drafter=drafter).total
    assert abs(estimate / measured - 1) <= TOLERANCE, (estimate, measured)


def test_the_need_is_the_sum_of_its_parts(bundle: Path) -> None:
    opened = open_bundle(bundle)
    whole, plain = memory_need(opened), memory_need(opened, drafter=False)
    assert whole.kv == opened.target.kv.bytes + opened.drafter.kv.bytes
    assert plain.kv == opened.target.kv.bytes
    assert plain.drafter == 0 < whole.drafter
    assert plain.total < whole.total
    assert whole.total == sum(vars(whole).values())


@pytest.mark.parametrize(
    ("needed", "plain", "available", "short"),
    [
        (100, 80, 1000, False),
        (100, 80, 105, False),
        (100, 80, 104, True),
        (100, 80, 0, True),
        (100, 80, None, False),  # nobody knows: as if there were enough
    ],
)
def test_when_memory_is_short(needed: int, plain: int, available: int | None, short: bool) -> None:
    mega = 10**6
    reason = why_plain(needed * mega, plain * mega, None if available is None else available * mega)
    assert (reason is not None) == short
    if reason is not None:
        for number in (needed, plain, available):
            assert f"{number} MB" in reason


def test_what_is_available(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  100 kB\nMemFree:  10 kB\nMemAvailable:   40 kB\n")
    assert available_bytes(tmp_path) == 40 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("9000\n")
    assert available_bytes(tmp_path) == 40 * 1024
    (group / "memory.max").write_text("30000\n")
    assert available_bytes(tmp_path) == 21_000
    (group / "memory.stat").write_text("anon 2000\nactive_file 500\ninactive_file 6000\nslab 500\n")
    assert available_bytes(tmp_path) == 27_000
    (group / "memory.stat").unlink()
    (group / "memory.max").write_text("8000\n")
    assert available_bytes(tmp_path) == 0
