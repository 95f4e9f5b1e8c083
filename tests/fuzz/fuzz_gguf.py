"""Mutated GGUF files: the header and the configuration are read, or refused in one sentence.

PYTHONPATH=tests python -m fuzz.fuzz_gguf [--count 20000] [--seconds 120] [--seed 0]
"""

from __future__ import annotations

import random
import struct
import tempfile
from collections import Counter
from pathlib import Path

from fuzz.command import command, numbers
from omnidraft.checkpoints.gguf.config import config_of
from omnidraft.checkpoints.gguf.header import read_header
from omnidraft.errors import CheckpointError
from support.gguf_bytes import KEYS, model, sound, whole

_NUMBERS = (0, 1, 31, 33, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
# What a refusal says, by the name of the fault.
_FAULTS = {
    "begin with GGUF": "magic", "it is version": "version", "big-endian": "version",
    " tensors, more": "counts", " keys, more": "counts", "ends in its header": "truncated",
    "cannot be read": "truncated",
    "bytes, more than": "text", "not UTF-8": "text",
    "is there twice": "twice", "unknown type": "type", " items, more": "counts", " axes": "axes",
    "more than the file holds": "size", "has blocks of": "size", "no multiple of": "offset",
    "overlaps": "overlap", "ends at byte": "offset", "general.alignment": "alignment",
    "GGUF file of": "architecture", "states": "value", "does not state": "value", "sizes mean": "value",
    "no embedding": "value", "a model with": "value", "is unknown": "value", "one of": "value",
}  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    """A sound file with some bytes or numbers changed, or cut short."""
    tensors, size = model()
    data = bytearray(sound())
    if rng.random() < 0.02:  # a name that is there twice, which no change of bytes makes
        name, sizes, kind, _ = tensors[0]
        size *= 2
        data = bytearray(whole(KEYS, [*tensors, (name, sizes, kind, size // 2)], size))
    head = len(data) - size
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4, 16))):
        at = rng.randrange(head)
        if rng.random() < 0.5:
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        else:
            number = struct.pack("<Q", rng.choice(_NUMBERS))[: rng.choice((4, 8))]
            data[at : at + len(number)] = number
    return bytes(data if rng.random() < 0.85 else data[: rng.randrange(len(data))])


def _fault(error: CheckpointError) -> str:
    """The name of a refusal, which is one sentence with the file and a remedy."""
    assert "\n" not in str(error) and "model.gguf" in error.message and error.remedy, error
    return next((name for words, name in _FAULTS.items() if words in error.message), "other")


def fuzz(count: int, seconds: float, seed: int) -> Counter[str]:
    """Read mutants until a limit is reached; return the number of each outcome."""
    rng, seen = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for _ in numbers(count, seconds):
            path.write_bytes(mutated(rng))
            try:
                config = config_of(read_header(path, "model.gguf"), "model.gguf")
            except CheckpointError as error:
                seen[_fault(error)] += 1
            else:
                assert config["num_hidden_layers"] == 1 and config["hidden_size"] == 32
                seen["valid"] += 1
    return seen


if __name__ == "__main__":
    command(__doc__, "GGUF files", 20_000, fuzz)
