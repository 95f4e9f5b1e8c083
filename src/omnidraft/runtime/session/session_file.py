"""The file of a session, format version 1: spec/session.md.

Reading is total: every length is checked before it is used, every field before it is believed, and each
failure has a name.
"""

import json
import math
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from omnidraft.errors import OmnidraftError, SessionFileError
from omnidraft.runtime.decoding.costs import Costs
from omnidraft.runtime.decoding.stop import StopReason
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
        omnidraft=_text(value["omnidraft"]),
        identity=Identity(
            _text(identity["draft_fingerprint"]),
            _text(identity["target_fingerprint"]),
            {_text(name): _text(found) for name, found in identity["graphs"].items()},
        ),
        costs=_costs(value["costs"]),
        turns=tuple(Turn(_text(t["message"]), _ids(t["answer"])) for t in _list(value["turns"])),
        message=None if message is None else _text(message),
        answer=None if value["answer"] is None else _answer(value["answer"]),
    )


def _costs(value: Any) -> Costs:
    target = tuple(_number(seconds) for seconds in _list(value["target"]))
    costs = Costs(target, *(_number(value[name]) for name in ("draft", "host", "read", "acceptance")))
    if min(target, default=0.0) <= 0.0 or costs.draft <= 0.0 or costs.acceptance > 1.0:
        raise ValueError("a pass that takes no time")
    return costs


def _answer(value: Any) -> Answer:
    request = _request(value["request"])
    if value["stop_reason"] not in _STOP_REASONS:
        raise ValueError("stop_reason")
    answer = Answer(
        request=request,
        prompt=_ids(value["prompt"]),
        output=_ids(value["output"]),
        context=None if value["context"] is None else _ids(value["context"]),
        passes=_ids(value["passes"]),
        drafter=DrafterContext(
            held=_ids(value["drafter"]["held"]),
            passes=_ids(value["drafter"]["passes"]),
            window=_count(value["drafter"]["window"]),
        ),
        draft_length=dict(value["draft_length"]),
        random=_state_of_random(value["random"]),
        stop_reason=value["stop_reason"],
        logprobs=tuple(_logprob(x) for x in _list(value["logprobs"])),
    )
    if len(answer.logprobs) != (len(answer.output) if request.logprobs else 0):
        raise ValueError("logprobs")
    text = len(answer.prompt) + len(answer.output)
    if sum(answer.passes) > text or sum(answer.drafter.passes) != len(answer.drafter.held):
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
        temperature=_number(value["temperature"]),
        seed=_state_of_random(value["seed"]),
        mode=value["mode"],
        num_draft_tokens=lengths if lengths == "auto" else _count(lengths),
        stop=tuple(_text(s) for s in _list(value["stop"])),
        ignore_eos=_bool(value["ignore_eos"]),
        top_k=_count(value["top_k"]),
        top_p=_number(value["top_p"]),
        min_p=_number(value["min_p"]),
        repetition_penalty=_number(value["repetition_penalty"]),
        verification=value["verification"],
        logprobs=_bool(value["logprobs"]),
        head_threshold=threshold if threshold == "auto" else _number(threshold),
    )
    found.check()
    return found


def _state_of_random(value: Any) -> int:
    if len(_text(value)) != 16:
        raise ValueError(f"{value!r:.20} is no 16 hexadecimal digits")
    return int(value, 16)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.20} is no text")
    value.encode()  # refuses half of a surrogate pair
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.20} is neither true nor false")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.20} is no list")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r:.20} is no count")
    return value


def _ids(value: Any) -> tuple[int, ...]:
    ids = tuple(_count(i) for i in _list(value))
    if max(ids, default=0) >= 1 << 31:
        raise ValueError("an id beyond 31 bits")
    return ids


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{value!r:.20} is no amount")
    return float(value)


def _logprob(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 < value < 1e-6:
        raise ValueError(f"{value!r:.20} is no log-probability")
    return float(value)
