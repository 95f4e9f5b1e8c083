"""The checkpoint file of learners: every value is read back, every other file is refused in a sentence."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from omnidraft.errors import SettingError
from omnidraft.learning.step.state_file import Arrays, StateFormat

FORMAT = StateFormat("omnidraft.test_state", "1", "testing")
ARRAYS: Arrays = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not contiguous
    "step": np.array(3.0, np.float32),  # no axes, as the counts of AdamW in torch
    "counts": np.array([1, 2], np.int64),
    "mask": np.array([True, False]),
}
METADATA = {"settings": {"rate": 0.5, "head": None, "names": ["a"]}, "steps": 4}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


def raw(header: object, data: bytes = b"") -> bytes:
    """A safetensors file with this header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_what_is_written_is_read(file: Path) -> None:
    FORMAT.write(file, ARRAYS, METADATA)
    arrays, metadata = FORMAT.read(file)
    assert metadata == METADATA == FORMAT.read_metadata(file)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape), name
        assert np.array_equal(arrays[name], array), name


def test_every_prefix_of_a_file_is_refused(file: Path) -> None:
    FORMAT.write(file, ARRAYS, METADATA)
    data = file.read_bytes()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(SettingError, match="so testing cannot go on from it; delete it or name another"):
            FORMAT.read(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (raw({}), "is None version None"),
        (save({}, {"format": "omnidraft.other", "version": "1"}), "is omnidraft.other version 1"),
        (save({}, {"format": FORMAT.name, "version": "2"}), "is omnidraft.test_state version 2"),
        (save({}, {"format": FORMAT.name, "version": "1", "settings": "{"}), "has no readable settings"),
        (save({}, {"format": FORMAT.name, "version": "1", "settings": "[" * 100_000}),
         "has no readable settings"),
        (raw({"__metadata__": {"format": FORMAT.name, "version": "1"},
              "a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, b"ab"), "cannot be read"),
        (raw({"__metadata__": {"format": FORMAT.name, "version": "1"},
              "a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"a"), "cannot be read"),
    ],
    # The bytes themselves cannot name the cases: safetensors orders its metadata differently each time.
    ids=["no format", "other format", "version 2", "settings cut", "settings deep", "bfloat16", "float8"],
)  # fmt: skip
def test_another_file_is_refused_by_what_it_is(file: Path, data: bytes, message: str) -> None:
    file.write_bytes(data)
    with pytest.raises(SettingError, match=message):
        FORMAT.read(file)


def test_a_path_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is not a regular file"):
        FORMAT.read(tmp_path)
    with pytest.raises(SettingError, match=r"cannot be read \(No such file or directory\)"):
        FORMAT.read(tmp_path / "none")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(SettingError, match="is not a regular file"):
            FORMAT.read_metadata(tmp_path / "pipe")


def test_other_settings_are_refused_with_both_values(file: Path) -> None:
    FORMAT.check_same(file, {"rate": 0.5, "more": 1}, {"rate": 0.5, "head": None})
    with pytest.raises(SettingError, match=r"was made with rate 0\.5 and not 0\.25, so testing"):
        FORMAT.check_same(file, {"rate": 0.5}, {"rate": 0.25})
    with pytest.raises(SettingError, match="has no readable settings"):
        FORMAT.check_same(file, None, {"rate": 0.25})
