"""The file of a session: read as it was written, as the specification shows; each fault has a name."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft import GenerationConfig
from omnidraft.errors import SessionFileError, SettingError
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.disk.strict_json import dump
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.session_file import VERSION, decode_session, encode_session
from omnidraft.runtime.session.text_state import Identity, SavedAnswer, SavedSession
from omnidraft.runtime.vocab.cache_file import MAX_FILE_BYTES as MAX_CACHE_BYTES


def example(turns: int = 2) -> SavedSession:
    answer = SavedAnswer(
        config=GenerationConfig(temperature=0.5, seed=2**64 - 1, stop=("\n\n", "\u3042")),
        prompt=(1, 2, 3),
        output=(4, 5),
        context=(7, 8, 9),
        random=0x8000000000000001,
        stop_reason=None,
    )
    return SavedSession(
        omnidraft="0.1.0",
        identity=Identity("d" * 64, "e" * 64, {"target/cpu/model.onnx": "a" * 64}, {"drafter": "b" * 64}),
        costs=Costs((0.001, 0.0011), 0.0002, 1e-5, 0.5),
        lengths=LengthState(evaluated=[2.91] + [0.0] * 7, accepted=[0.97] + [0.0] * 7, drafts=1.0, idle=3),
        turns=tuple(Turn(f"message {i} \u3042\U0001f9d1\u200d\U0001f680", (i, i + 1)) for i in range(turns)),
        message="hello",
        answer=answer,
    )


@pytest.mark.parametrize("name", ["state", "cache"])
def test_what_is_too_large_to_be_read_is_not_written(name: str) -> None:
    turns = tuple(Turn("x" * (1 << 22), ()) for _ in range(4 if name == "state" else 0))
    cache = bytes(MAX_CACHE_BYTES + 1) if name == "cache" else b""
    with pytest.raises(SessionFileError, match=f"its {name} has") as caught:
        encode_session(replace(example(), turns=turns), cache)
    assert caught.value.fault == "limits"


def sealed(change: Callable[[Any], object]) -> bytes:
    """The example with a change to its state and right checksums."""
    data = encode_session(example(), b"cache")
    size = struct.unpack_from("<I", data, 16)[0]
    value = json.loads(data[32 : 32 + size])
    changed = change(value)
    text = dump(value if changed is None else changed)
    return (
        struct.pack("<8s6I", data[:8], VERSION, 0, len(text), 5, zlib.crc32(text), zlib.crc32(b"cache"))
        + text
        + b"cache"
    )


WHOLE = encode_session(example(), b"cache")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.integers(0, len(WHOLE)), st.booleans())
def test_the_reader_is_total(noise: bytes, at: int, checksums: bool) -> None:
    """A file with any bytes changed, also with right checksums, is read or refused by name."""
    data = bytearray(WHOLE[:at] + noise + WHOLE[at + len(noise) :])
    if checksums and len(data) >= 32 + 5:
        size = len(data) - 32 - 5
        data[8:32] = struct.pack("<6I", VERSION, 0, size, 5, zlib.crc32(data[32:-5]), zlib.crc32(data[-5:]))
    try:
        state, cache = decode_session(bytes(data))
    except SessionFileError:
        return
    assert isinstance(state, SavedSession) and isinstance(cache, bytes)


@pytest.mark.parametrize(
    "config",
    [
        GenerationConfig(max_new_tokens=1 << 31),
        GenerationConfig(top_k=1 << 31),
        GenerationConfig(stop=("a",) * 65),
        GenerationConfig(stop=("\u3042" * 342,)),
    ],
    ids=["max_new_tokens", "top_k", "number of stops", "length of a stop"],
)
def test_settings_that_no_file_holds_are_refused_before_a_generation(config: GenerationConfig) -> None:
    with pytest.raises(SettingError, match=r"(max_new_tokens|top_k|stop) "):
        config.check()
    data = sealed(lambda s: s["answer"]["config"].update(stop=list(config.stop), top_k=config.top_k))
    if config.max_new_tokens == GenerationConfig.max_new_tokens:
        with pytest.raises(SessionFileError) as caught:
            decode_session(data)
        assert caught.value.fault == "state"
