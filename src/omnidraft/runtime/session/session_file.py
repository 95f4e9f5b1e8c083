"""The file of a session, format version 1: spec/session.md.

Reading is total: every length is checked before it is used, every field before it is believed, and each
failure has a name.
"""

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from omnidraft.errors import OmnidraftError, SessionFileError
from omnidraft.runtime.bundle.bundle import read_costs
from omnidraft.runtime.decoding.costs import Costs
from omnidraft.runtime.decoding.stop import StopReason
from omnidraft.runtime.disk.json_fields import array, boolean, hexadecimal, ids, integer, number, text
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation_config import GenerationConfig

MAGIC = b"\x89ODSN\r\n\x1a"
VERSION = 1
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
class DrafterContext:
    """The drafter's context: its ids, runs of them computed together and alone, and its window's begin."""

    held: tuple[int, ...]
    passes: tuple[int, ...]
    window: int


@dataclass(frozen=True)
class Answer:
    """The last generation of a session.

    Attributes:
        request: what was asked, its seed resolved.
        prompt, output: target ids. context: the same text in draft ids, None where no drafter was loaded.
        passes: lengths of the runs of the text's positions that were computed together and alone, in turns.
        drafter: the ids in the drafter's context, such runs of them, and where its window begins.
        draft_length: state of the draft length. random: state of SplitMix64.
        stop_reason: why it ended, None when it can go on.
        logprobs: of the output, if they were asked for.
    """

    request: GenerationConfig
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    context: tuple[int, ...] | None
    passes: tuple[int, ...]
    drafter: DrafterContext
    draft_length: dict[str, Any]
    random: int
    stop_reason: StopReason | None
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class State:
    """All that a session is, but its cache: earlier turns, the message being answered, its answer so far."""

    omnidraft: str
    identity: Identity
    costs: Costs
    turns: tuple[Turn, ...]
    message: str | None
    answer: Answer | None


def encode_session(state: State, cache: bytes) -> bytes:
    """The bytes of a session file: equal states give equal bytes."""
    value = asdict(state)
    if state.answer is not None:  # 64 bits do not fit a number of JSON in every language
        assert state.answer.request.seed is not None
        value["answer"]["random"] = f"{state.answer.random:016x}"
        value["answer"]["request"]["seed"] = f"{state.answer.request.seed % (1 << 64):016x}"
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    header = _HEADER.pack(MAGIC, VERSION, 0, len(text), len(cache), zlib.crc32(text), zlib.crc32(cache))
    return header + text + cache


def decode_session(data: bytes) -> tuple[State, bytes]:
    """The state and the bytes of the cache in a session file.

    Raises:
        SessionFileError: naming what is wrong with it.
    """
    text, cache = _sections(data)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise SessionFileError("its state is no JSON", fault="state") from None
    try:
        return _state(value), cache
    except (KeyError, TypeError, ValueError, AttributeError, OmnidraftError) as error:
        raise SessionFileError(
            f"its state has a field that cannot be ({error!r:.80})", fault="state"
        ) from None


def _sections(data: bytes) -> tuple[bytes, bytes]:
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise SessionFileError("it is no session file", fault="not_a_session")
    if len(data) < HEADER_BYTES:
        raise SessionFileError(f"it has {len(data)} bytes and a header has {HEADER_BYTES}", fault="truncated")
    _, version, reserved, text_bytes, cache_bytes, text_crc, cache_crc = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SessionFileError(
            f"it has version {version} and this omnidraft reads version {VERSION}", fault="version"
        )
    if reserved != 0:
        raise SessionFileError(f"its reserved field is {reserved} instead of 0", fault="reserved")
    wanted = HEADER_BYTES + text_bytes + cache_bytes
    if len(data) < wanted:
        raise SessionFileError(f"it has {len(data)} bytes of {wanted}", fault="truncated")
    if len(data) > wanted:
        raise SessionFileError(f"it has {len(data) - wanted} bytes too many", fault="trailing")
    text, cache = data[HEADER_BYTES : HEADER_BYTES + text_bytes], data[HEADER_BYTES + text_bytes :]
    if (zlib.crc32(text), zlib.crc32(cache)) != (text_crc, cache_crc):
        raise SessionFileError("its bytes were changed (a CRC-32 does not match)", fault="checksum")
    return text, cache


def _state(value: Any) -> State:
    identity = value["identity"]
    message = value["message"]
    return State(
        omnidraft=text(value["omnidraft"]),
        identity=Identity(
            text(identity["draft_fingerprint"]),
            text(identity["target_fingerprint"]),
            {text(name): text(found) for name, found in identity["graphs"].items()},
        ),
        costs=read_costs(value["costs"]),
        turns=tuple(Turn(text(t["message"]), ids(t["answer"])) for t in array(value["turns"])),
        message=None if message is None else text(message),
        answer=None if value["answer"] is None else _answer(value["answer"]),
    )


def _answer(value: Any) -> Answer:
    request = _request(value["request"])
    if value["stop_reason"] not in _STOP_REASONS:
        raise ValueError("stop_reason")
    answer = Answer(
        request=request,
        prompt=ids(value["prompt"]),
        output=ids(value["output"]),
        context=None if value["context"] is None else ids(value["context"]),
        passes=ids(value["passes"]),
        drafter=DrafterContext(
            held=ids(value["drafter"]["held"]),
            passes=ids(value["drafter"]["passes"]),
            window=_count(value["drafter"]["window"]),
        ),
        draft_length=dict(value["draft_length"]),
        random=_state_of_random(value["random"]),
        stop_reason=value["stop_reason"],
        logprobs=tuple(number(x, -1e9, 1e-6) for x in array(value["logprobs"])),
    )
    if len(answer.logprobs) != (len(answer.output) if request.logprobs else 0):
        raise ValueError("logprobs")
    length = len(answer.prompt) + len(answer.output)
    if sum(answer.passes) > length or sum(answer.drafter.passes) != len(answer.drafter.held):
        raise ValueError("passes over other positions than there are")
    if not answer.prompt or len(answer.output) > answer.request.max_new_tokens:
        raise ValueError("prompt or output")
    if answer.stop_reason is None and len(answer.output) == answer.request.max_new_tokens:
        raise ValueError("output is complete")
    return answer


def _request(value: Any) -> GenerationConfig:
    lengths, threshold = value["num_draft_tokens"], value["head_threshold"]
    found = GenerationConfig(
        max_new_tokens=_count(value["max_new_tokens"]),
        temperature=number(value["temperature"], 0.0),
        seed=_state_of_random(value["seed"]),
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
    found.check()
    return found


def _state_of_random(value: Any) -> int:
    return int(hexadecimal(value, 16), 16)


def _count(value: Any) -> int:
    return integer(value, 0, (1 << 64) - 1)
