"""The header of a GGUF file: read when it is sound, and refused in one sentence for each fault."""

from __future__ import annotations

import re
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")

from omnidraft.checkpoints.gguf.config import config_of
from omnidraft.checkpoints.gguf.header import MAX_HEADER, read_header
from omnidraft.errors import CheckpointError
from support.gguf_bytes import KEYS, key, model, sound, tensor, text, whole

SENTENCE = re.compile(r"[^\n]+; [^\n]+")  # what is wrong; the remedy


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(sound())
    header = read_header(path, "model")
    tensors, size = model()
    assert header.values["general.architecture"] == "llama"
    assert header.values["tokenizer.ggml.tokens"] == ["a", "b", "ab", "<e>"]
    assert header.values["tokenizer.ggml.token_type"].tolist() == [1, 1, 1, 3]
    assert set(header.tensors) == {name for name, *_ in tensors}
    table = header.tensors["token_embd.weight"]
    assert (table.kind, table.shape, table.size) == ("Q8_0", (4, 32), 136)
    assert table.offset == path.stat().st_size - size and len(header.data()) == path.stat().st_size
    assert config_of(header, "model")["hidden_size"] == 32


def test_it_reads_what_the_package_reads(tmp_path: Path) -> None:
    """The same keys, types, shapes and bytes as the reader of the package gguf."""
    from gguf import GGUFReader

    path = tmp_path / "model.gguf"
    path.write_bytes(sound()[: -model()[1]] + np.random.default_rng(0).bytes(model()[1]))
    header, theirs = read_header(path, "model"), GGUFReader(path)
    for each in theirs.tensors:
        mine = header.tensors[each.name]
        assert (mine.kind, mine.offset, mine.size) == (
            each.tensor_type.name, each.data_offset, each.n_bytes,
        )  # fmt: skip
        assert mine.shape == tuple(reversed(each.shape.tolist()))
    for name, mine in header.values.items():
        other = theirs.fields[name].contents()
        assert (mine.tolist() if isinstance(mine, np.ndarray) else mine) == other, name


def changed(**changes: Any) -> bytes:
    """A sound file with other keys."""
    tensors, size = model()
    keys = {name: each for name, each in {**KEYS, **changes}.items() if each is not None}
    return whole(keys, tensors, size)


def moved(place: int, *entry: Any) -> bytes:
    """A sound file with another entry of a tensor."""
    tensors, size = model()
    name, sizes, kind, offset = tensors[place]
    given = dict(zip(("name", "sizes", "kind", "offset"), entry, strict=False))
    tensors[place] = (
        given.get("name") or name, given.get("sizes") or sizes, given.get("kind") or kind,
        offset if given.get("offset") is None else given["offset"],
    )  # fmt: skip
    return whole(KEYS, tensors, size)


def after_start(tail: bytes, counts: tuple[int, int] = (1, 1)) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, *counts) + tail + bytes(64)


NESTED = text("a") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1)
FAULTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", r"cannot be read \(.*empty.*; download it again"),
    "another format": (
        lambda: b"PK\x03\x04" + bytes(60),
        r"does not begin with GGUF; give a file that llama\.cpp",
    ),
    "only the magic": (lambda: b"GGUF", r"the file ends in its header \(4 bytes\); download it again"),
    "version 1": (lambda: b"GGUF" + struct.pack("<I", 1) + bytes(60), r"it is version 1; convert it again"),
    "big-endian": (lambda: b"GGUF" + struct.pack(">I", 3) + bytes(60), r"it is big-endian; convert it again"),
    "many tensors": (
        lambda: after_start(b"", (1 << 40, 1)),
        r"states 1099511627776 tensors, more than 65536",
    ),
    "many keys": (lambda: after_start(b"", (1, 1 << 40)), r"states 1099511627776 keys, more than 4096"),
    "keys that are not there": (lambda: sound()[:400], r"the file ends in its header \(400 bytes\)"),
    "no end of a key": (
        lambda: after_start(struct.pack("<Q", 1 << 62)),
        r"a text at byte 24 has 4611\d+ bytes, more",
    ),
    "a long text": (
        lambda: after_start(text("a") + struct.pack("<IQ", 8, (1 << 20) + 1)),
        r"1048577 bytes, more than 1048576",
    ),
    "not UTF-8": (lambda: after_start(text(b"\xff\xfe")), r"the text at byte 32 is not UTF-8"),
    "a key twice": (lambda: after_start(key("a", 1) * 2, (0, 2)), r"the key 'a' is there twice"),
    "a type": (lambda: after_start(text("a") + struct.pack("<I", 77)), r"a is of the unknown type 77"),
    "an array of arrays": (lambda: after_start(NESTED), r"a is an array of the unknown type 9"),
    "a long array": (
        lambda: after_start(text("a") + struct.pack("<IIQ", 9, 4, 1 << 50)),
        r"a has 1125899906842624 items, more",
    ),
    "an array behind the end": (
        lambda: after_start(text("a") + struct.pack("<IIQ", 9, 4, 1 << 20)),
        r"the file ends in its header",
    ),
    "no axes": (lambda: after_start(tensor("t", [], 0, 0), (1, 0)), r"t has 0 axes, and a tensor has 1 to 4"),
    "many axes": (lambda: after_start(tensor("t", [1] * 9, 0, 0), (1, 0)), r"t has 9 axes"),
    "an axis of nothing": (lambda: moved(3, None, (32, 0)), r"attn_q\.weight is 32 x 0 of Q8_0, more than"),
    "sizes that overflow": (
        lambda: moved(3, None, (1 << 32, 1 << 32)),
        r"is 4294967296 x 4294967296 of Q8_0, more than the file holds",
    ),
    "too many rows": (
        lambda: moved(3, None, (32, 1 << 20)),
        r"is 32 x 1048576 of Q8_0, more than the file holds",
    ),
    "a torn block": (lambda: moved(3, None, (40, 32)), r"has rows of 40 values, and Q8_0 has blocks of 32"),
    "a type of a tensor": (
        lambda: after_start(tensor("t", [32], 99, 0), (1, 0)),
        r"t is of the unknown type 99; give a file of a usual",
    ),
    "an offset between": (
        lambda: moved(3, None, None, None, 520),
        r"begins at 520, which is no multiple of 32",
    ),
    "an overlap": (
        lambda: moved(3, None, None, None, 32),
        r"blk\.0\.attn_q\.weight overlaps token_embd\.weight",
    ),
    "behind the end": (
        lambda: moved(3, None, None, None, 1 << 40),
        r"attn_q\.weight ends at byte 10995116\d+ of",
    ),
    "cut short": (
        lambda: sound()[:-100],
        r"blk\.0\.ffn_down\.weight ends at byte \d+ of \d+; download it again",
    ),
    "a tensor twice": (
        lambda: moved(4, "blk.0.attn_q.weight"),
        r"the tensor blk\.0\.attn_q\.weight is there twice",
    ),
    "no architecture": (
        lambda: changed(**{"general.architecture": None}),
        r"the architecture None, which is not",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence(fault: str, tmp_path: Path) -> None:
    make, sentence = FAULTS[fault]
    path = tmp_path / "model.gguf"
    path.write_bytes(make())
    with pytest.raises(CheckpointError, match=sentence) as caught:
        config_of(read_header(path, "model.gguf"), "model.gguf")
    assert SENTENCE.fullmatch(str(caught.value)) and "model.gguf" in str(caught.value)


@pytest.mark.parametrize("alignment", [0, 1, 48, 1 << 17, 2.0, "32"])
def test_an_alignment_that_is_none(alignment: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(after_start(key("general.alignment", alignment), (0, 1)))
    with pytest.raises(
        CheckpointError, match=r"general\.alignment is .*, which is no power of two from 8 to 65536"
    ):
        read_header(path, "model.gguf")


def test_layers_that_are_not_there_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(changed(**{"llama.block_count": 1 << 20}))
    header = read_header(path, "model")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="states 1048576 layers and holds tensors of 1; download"):
            config_of(header, "model")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_header_that_never_ends_is_not_read_to_the_end(tmp_path: Path) -> None:
    """8 GB without contents: a little is read, and little memory is taken."""
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.write(after_start(b"", (0, 1 << 12)))
        file.truncate(8 << 30)
    started = time.process_time()
    with pytest.raises(CheckpointError, match="the key '' is there twice"):
        read_header(path, "model.gguf")
    strings = struct.pack("<IIQ", 9, 8, 1 << 21) + (struct.pack("<Q", 60) + b"x" * 60) * (
        MAX_HEADER // 68 + 9
    )
    path.write_bytes(after_start(text("a") + strings))
    with pytest.raises(CheckpointError, match=r"its header is too long \(67108864 bytes\)"):
        read_header(path, "model.gguf")
    assert time.process_time() - started < 30
