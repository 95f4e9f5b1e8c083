"""The file of a session, format version 2: spec/09-session.md.

Reading is total: every length is checked before it is used, every field before it is trusted, and each
failure has a name.
"""

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from omnidraft.errors import OmnidraftError, SessionFileError
from omnidraft.runtime.bundle.bundle import read_costs
from omnidraft.runtime.decoding.draft_length import Costs
from omnidraft.runtime.decoding.stop import StopReason
from omnidraft.runtime.disk.json_fields import array, boolean, hexadecimal, ids, integer, number, text
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation_config import GenerationConfig

MAGIC = b"\x89ODSN\r\n\x1a"
VERSION = 2
# magic, version, reserved, bytes of the state, bytes of the cache, CRC-32 of each
_HEADER = struct.Struct("<8s6I")
HEADER_BYTES = _HEADER.size
_STOP_REASONS = (None, "eos", "stop", "length", "context", "cancelled")


@dataclass(frozen=True)
class Identity:
    """What a session belongs to: fingerprints of both vocabularies, and the SHA-256 of each graph's files."""

    draft_fingerprint: str
    target_fingerprint: str
    graphs: dict[str, str]


@dataclass(frozen=True)
class SavedAnswer:
    """The last generation of a session.

    Attributes:
        config: its settings, with the seed that was used.
        prompt, output: target ids.
        context: the same text in draft ids; None where no drafter was loaded.
        random: state of SplitMix64.
        stop_reason: why it ended; None when it can continue.
        logprobs: of the output, if they were asked for.
    """

    config: GenerationConfig
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    context: tuple[int, ...] | None
    random: int
    stop_reason: StopReason | None
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class SavedSession:
    """All of a session but its cache: earlier turns, the message being answered, its answer so far."""

    omnidraft: str
    identity: Identity
    costs: Costs
    turns: tuple[Turn, ...]
    message: str | None
    answer: SavedAnswer | None


def encode_session(saved: SavedSession, cache: bytes) -> bytes:
    """The bytes of a session file: equal values give equal bytes."""
    value = asdict(saved)
    if saved.answer is not None:  # 64 bits do not fit a number of JSON in every language
        assert saved.answer.config.seed is not None
        value["answer"]["random"] = f"{saved.answer.random:016x}"
        value["answer"]["config"]["seed"] = f"{saved.answer.config.seed % (1 << 64):016x}"
    state = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    header = _HEADER.pack(MAGIC, VERSION, 0, len(state), len(cache), zlib.crc32(state), zlib.crc32(cache))
    return header + state + cache


def decode_session(data: bytes) -> tuple[SavedSession, bytes]:
    """The saved session and the bytes of the cache in a session file.

    Raises:
        SessionFileError: naming what is wrong with it.
    """
    state, cache = _sections(data)
    try:
        value = json.loads(state)
    except (ValueError, RecursionError):
        raise SessionFileError("its state is not JSON", fault="state") from None
    try:
        return _saved(value), cache
    except (KeyError, TypeError, ValueError, AttributeError, OmnidraftError) as error:
        raise SessionFileError(f"its state has an invalid field ({error!r:.80})", fault="state") from None


def _sections(data: bytes) -> tuple[bytes, bytes]:
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise SessionFileError("it is not a session file", fault="not_a_session")
    if len(data) < HEADER_BYTES:
        raise SessionFileError(f"it has {len(data)} bytes and a header has {HEADER_BYTES}", fault="truncated")
    _, version, reserved, state_bytes, cache_bytes, state_crc, cache_crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SessionFileError(
            f"it has version {version} and this omnidraft reads version {VERSION}", fault="version"
        )
    if reserved != 0:
        raise SessionFileError(f"its reserved field is {reserved} instead of 0", fault="reserved")
    expected = HEADER_BYTES + state_bytes + cache_bytes
    if len(data) < expected:
        raise SessionFileError(f"it has {len(data)} bytes of {expected}", fault="truncated")
    if len(data) > expected:
        raise SessionFileError(f"it has {len(data) - expected} bytes too many", fault="trailing")
    state, cache = data[HEADER_BYTES : HEADER_BYTES + state_bytes], data[HEADER_BYTES + state_bytes :]
    if (zlib.crc32(state), zlib.crc32(cache)) != (state_crc, cache_crc):
        raise SessionFileError("its bytes were changed (a CRC-32 does not match)", fault="checksum")
    return state, cache


def _saved(value: Any) -> SavedSession:
    identity = value["identity"]
    message = value["message"]
    return SavedSession(
        omnidraft=text(value["omnidraft"]),
        identity=Identity(
            text(identity["draft_fingerprint"]),
            text(identity["target_fingerprint"]),
            {text(name): text(digest) for name, digest in identity["graphs"].items()},
        ),
        costs=read_costs(value["costs"]),
        turns=tuple(Turn(text(t["message"]), ids(t["answer"])) for t in array(value["turns"])),
        message=None if message is None else text(message),
        answer=None if value["answer"] is None else _answer(value["answer"]),
    )


def _answer(value: Any) -> SavedAnswer:
    if value["stop_reason"] not in _STOP_REASONS:
        raise ValueError("stop_reason")
    answer = SavedAnswer(
        config=_config(value["config"]),
        prompt=ids(value["prompt"]),
        output=ids(value["output"]),
        context=None if value["context"] is None else ids(value["context"]),
        random=_hexadecimal(value["random"]),
        stop_reason=value["stop_reason"],
        logprobs=tuple(number(x, -1e9, 1e-6) for x in array(value["logprobs"])),
    )
    if len(answer.logprobs) != (len(answer.output) if answer.config.logprobs else 0):
        raise ValueError("logprobs")
    if not answer.prompt or len(answer.output) > answer.config.max_new_tokens:
        raise ValueError("prompt or output")
    if answer.stop_reason is None and len(answer.output) == answer.config.max_new_tokens:
        raise ValueError("output is complete")
    return answer


def _config(value: Any) -> GenerationConfig:
    lengths, threshold = value["num_draft_tokens"], value["head_threshold"]
    config = GenerationConfig(
        max_new_tokens=_count(value["max_new_tokens"]),
        temperature=number(value["temperature"], 0.0),
        seed=_hexadecimal(value["seed"]),
        mode=value["mode"],
        num_draft_tokens=lengths if lengths == "auto" else _count(lengths),
        stop=tuple(text(s) for s in array(value["stop"])),
        ignore_eos=boolean(value["ignore_eos"]),
        top_k=_count(value["top_k"]),
        top_p=number(value["top_p"], 0.0),
        min_p=number(value["min_p"], 0.0),
        repetition_penalty=number(value["repetition_penalty"], 0.0),
        verification=value["verification"],
        logprobs=boolean(value["logprobs"]),
        head_threshold=threshold if threshold == "auto" else number(threshold, 0.0),
    )
    config.check()
    return config


def _hexadecimal(value: Any) -> int:
    return int(hexadecimal(value, 16), 16)


def _count(value: Any) -> int:
    return integer(value, 0, (1 << 64) - 1)
