"""Buffers of zeros take memory for what is written, and none after they are gone."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.models.graph_contract import kv_buffers

KV = KvShape(4, 8, 32, 8192)  # 67 MB in 8 buffers


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def huge_pages_unasked() -> bool:
    """Whether the system gives huge pages to every program, asked or not."""
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return setting.exists() and "[always]" in setting.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(huge_pages_unasked(), reason="the system takes 2 MB for each first write of any program")
def test_keys_and_values_take_memory_for_the_positions_that_are_written() -> None:
    before = resident()
    buffers = kv_buffers(KV)
    for buffer in buffers.values():
        buffer[:, :, :64] = 1.0
    written = resident() - before
    assert written < KV.bytes / 10, "a few positions take the memory of many"
    for buffer in buffers.values():
        buffer[:] = 1.0
    assert resident() - before > KV.bytes * 0.9, "the reading of the memory shows nothing"
    del buffer, buffers
    assert resident() - before < KV.bytes / 10, "the memory stays with the process"
