"""The file of a session, format version 7: spec/09-session.md.

Reading is total: every length is checked before it is used, every field before it is trusted, and each
failure has a name. A state has one way to be written, so a reader writes it again and compares the bytes.
"""

import struct
import zlib
from collections.abc import Mapping
from typing import Any

from omnidraft.errors import OmnidraftError, SessionFileError
from omnidraft.runtime.decoding.length_state import FIRST_SHARE, LAST_SHARE, Costs, LengthState
from omnidraft.runtime.device.device_costs import check_costs
from omnidraft.runtime.disk.json_fields import array, boolean, hexadecimal, ids, integer, mapping, real, text
from omnidraft.runtime.disk.strict_json import bits_of, dump, parse
from omnidraft.runtime.session.conversation import Turn
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.session.text_state import Identity, SavedAnswer, SavedSession
from omnidraft.runtime.vocab.cache_file import MAX_FILE_BYTES as MAX_CACHE_BYTES

MAGIC = b"\x89ODSN\r\n\x1a"
VERSION = 7
MAX_STATE_BYTES = 1 << 24
# magic, version, reserved, bytes of the state, bytes of the cache, CRC-32 of each
_HEADER = struct.Struct("<8s6I")
HEADER_BYTES = _HEADER.size
MAX_FILE_BYTES = HEADER_BYTES + MAX_STATE_BYTES + MAX_CACHE_BYTES
MAX_TURNS, MAX_RESULTS, MAX_GRAPH_FILES = 1 << 16, 1 << 10, 256
MAX_COUNT = 1e9  # of a decayed count
_STOP_REASONS = (None, "eos", "stop", "length", "context", "cancelled")
_LARGEST = 1.7976931348623157e308


def encode_session(saved: SavedSession, cache: bytes) -> bytes:
    """The bytes of a session file: equal values give equal bytes.

    Raises:
        SessionFileError: `limits`, where the state or the cache is larger than a reader takes.
    """
    state = dump(_state(saved))
    _check_sizes(len(state), len(cache))
    header = _HEADER.pack(MAGIC, VERSION, 0, len(state), len(cache), zlib.crc32(state), zlib.crc32(cache))
    return header + state + cache


def decode_session(data: bytes) -> tuple[SavedSession, bytes]:
    """The saved session and the bytes of the cache in a session file.

    Raises:
        SessionFileError: naming what is wrong with it.
    """
    state, cache = _sections(data)
    try:
        value = parse(state)
    except ValueError as error:
        raise SessionFileError(f"its state is not JSON ({error!s:.80})", fault="state") from None
    try:
        saved = _saved(value)
    except (KeyError, TypeError, ValueError, OmnidraftError) as error:
        raise SessionFileError(f"its state has an invalid field ({error!r:.80})", fault="state") from None
    if dump(_state(saved)) != state:
        raise SessionFileError("its state is not written in the one way that there is", fault="state")
    return saved, cache


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
    _check_sizes(state_bytes, cache_bytes)
    expected = HEADER_BYTES + state_bytes + cache_bytes
    if len(data) < expected:
        raise SessionFileError(f"it has {len(data)} bytes of {expected}", fault="truncated")
    if len(data) > expected:
        raise SessionFileError(f"it has {len(data) - expected} bytes too many", fault="trailing")
    state, cache = data[HEADER_BYTES : HEADER_BYTES + state_bytes], data[HEADER_BYTES + state_bytes :]
    if (zlib.crc32(state), zlib.crc32(cache)) != (state_crc, cache_crc):
        raise SessionFileError("its bytes were changed (a CRC-32 does not match)", fault="checksum")
    return state, cache


def _check_sizes(state_bytes: int, cache_bytes: int) -> None:
    for name, size, most in (
        ("state", state_bytes, MAX_STATE_BYTES),
        ("cache", cache_bytes, MAX_CACHE_BYTES),
    ):
        if size > most:
            raise SessionFileError(f"its {name} has {size} bytes, more than {most}", fault="limits")


# The state as values of JSON, in the order of the tables of spec/09-session.md, and back.


def _state(saved: SavedSession) -> dict[str, Any]:
    identity = saved.identity
    return {
        "omnidraft": saved.omnidraft,
        "identity": {
            "draft_fingerprint": identity.draft_fingerprint,
            "target_fingerprint": identity.target_fingerprint,
            "graphs": dict(sorted(identity.graphs.items())),
            "drafter_adapter": identity.adapters.get("drafter"),
            "target_adapter": identity.adapters.get("target"),
        },
        "costs": _bits_of_fields(saved.costs),
        "draft_length": _bits_of_fields(saved.lengths),
        "system": saved.system,
        "tools": saved.tools,
        "turns": [
            {"message": turn.message, "results": turn.results, "answer": turn.answer} for turn in saved.turns
        ],
        "message": saved.message,
        "results": saved.results,
        "answer": None if saved.answer is None else _answer_object(saved.answer),
    }


def _saved(value: object) -> SavedSession:
    state = mapping(value)
    system, tools, message, answer = (state[name] for name in ("system", "tools", "message", "answer"))
    saved = SavedSession(
        omnidraft=text(state["omnidraft"], 64),
        identity=_identity(mapping(state["identity"])),
        costs=_costs(mapping(state["costs"])),
        lengths=_lengths(mapping(state["draft_length"])),
        turns=tuple(_turn(mapping(each)) for each in array(state["turns"], MAX_TURNS)),
        message=None if message is None else text(message),
        answer=None if answer is None else _answer(mapping(answer)),
        system=None if system is None else text(system),
        tools=None if tools is None else text(tools),
        results=_results(state["results"]),
    )
    _check_turns(saved)
    return saved


def _check_turns(saved: SavedSession) -> None:
    """The rules between the fields of a conversation."""
    if saved.message is None and saved.turns and saved.answer is not None:
        raise ValueError("the last answer of a conversation has no message")
    if (saved.message is not None and saved.answer is None) or saved.system == "":
        raise ValueError("a message has no answer, or the system prompt is empty")
    asked = [(turn.message, turn.results) for turn in saved.turns]
    asked += [] if saved.message is None else [(saved.message, saved.results)]
    if (saved.results and saved.message is None) or saved.tools == "" or (asked and asked[0][1]):
        raise ValueError("results answer nothing, or the tools are empty")
    if any(message and results for message, results in asked):
        raise ValueError("a turn has a message and results")


def _bits(value: Any) -> Any:
    """A float, or those of a sequence, as text."""
    return [bits_of(each) for each in value] if isinstance(value, list | tuple) else bits_of(value)


def _bits_of_fields(value: Costs | LengthState) -> dict[str, Any]:
    whole = ("idle", "unread", "written")
    return {name: each if name in whole else _bits(each) for name, each in vars(value).items()}


def _identity(value: Mapping[str, Any]) -> Identity:
    graphs = mapping(value["graphs"], MAX_GRAPH_FILES)
    adapters = {role: value[f"{role}_adapter"] for role in ("drafter", "target")}
    return Identity(
        hexadecimal(value["draft_fingerprint"], 64),
        hexadecimal(value["target_fingerprint"], 64),
        {text(name, 512): hexadecimal(digest, 64) for name, digest in graphs.items()},
        {role: hexadecimal(digest, 64) for role, digest in adapters.items() if digest is not None},
    )


def _costs(value: Mapping[str, Any]) -> Costs:
    target = tuple(_number(each) for each in array(value["target"]))
    costs = Costs(target, *(_number(value[name]) for name in ("draft", "host", "acceptance")))
    check_costs(costs)
    return costs


def _lengths(value: Mapping[str, Any]) -> LengthState:
    empty = LengthState()
    seen = _counts(value["seen"], len(empty.seen))
    evaluated, accepted = _trials(value["evaluated"], value["accepted"], len(empty.evaluated))
    compared, agreed = _trials(value["compared"], value["agreed"], len(empty.compared))
    return LengthState(
        seen, evaluated, accepted,
        real(value["drafts"], 0.0, MAX_COUNT), real(value["targets"], 0.0, MAX_COUNT),
        compared, agreed,
        integer(value["idle"], 0), integer(value["unread"], 0), integer(value["written"], 0),
        real(value["share"], LAST_SHARE, FIRST_SHARE),
    )  # fmt: skip


def _trials(trials: object, successes: object, count: int) -> tuple[list[float], list[float]]:
    tried, succeeded = _counts(trials, count), _counts(successes, count)
    if any(b > a for a, b in zip(tried, succeeded, strict=True)):
        raise ValueError("more successes than trials")
    return tried, succeeded


def _counts(values: object, count: int) -> list[float]:
    counts = [real(each, 0.0, MAX_COUNT) for each in array(values, count)]
    if len(counts) != count:
        raise ValueError(f"{len(counts)} counts of the draft length, not {count}")
    return counts


def _turn(value: Mapping[str, Any]) -> Turn:
    return Turn(text(value["message"]), ids(value["answer"]), _results(value["results"]))


def _results(value: object) -> tuple[str, ...]:
    return tuple(text(each) for each in array(value, MAX_RESULTS))


def _answer_object(answer: SavedAnswer) -> dict[str, Any]:
    config = answer.config
    assert config.seed is not None
    floats = ("temperature", "top_p", "min_p", "repetition_penalty")
    return {
        "config": {**vars(config), "seed": _digits(config.seed)}
        | {n: bits_of(getattr(config, n)) for n in floats},
        "prompt": answer.prompt,
        "output": answer.output,
        "logprobs": _bits(answer.logprobs),
        "context": answer.context,
        "random": _digits(answer.random),
        "stop_reason": answer.stop_reason,
    }


def _answer(value: Mapping[str, Any]) -> SavedAnswer:
    if value["stop_reason"] not in _STOP_REASONS:
        raise ValueError("stop_reason")
    answer = SavedAnswer(
        config=_config(mapping(value["config"])),
        prompt=ids(value["prompt"]),
        output=ids(value["output"]),
        context=None if value["context"] is None else ids(value["context"]),
        random=_integer64(value["random"]),
        stop_reason=value["stop_reason"],
        logprobs=tuple(real(x, -1e9, 1e-6) for x in array(value["logprobs"])),
    )
    if len(answer.logprobs) != (len(answer.output) if answer.config.logprobs else 0):
        raise ValueError("logprobs")
    if not answer.prompt or len(answer.output) > answer.config.max_new_tokens:
        raise ValueError("prompt or output")
    if answer.stop_reason is None and len(answer.output) == answer.config.max_new_tokens:
        raise ValueError("output is complete")
    if answer.context and not answer.config.asks_drafter:
        raise ValueError("a drafter's context")
    return answer


def _config(value: Mapping[str, Any]) -> GenerationConfig:
    lengths = value["num_draft_tokens"]
    config = GenerationConfig(
        max_new_tokens=integer(value["max_new_tokens"], 1),
        temperature=_number(value["temperature"]),
        seed=_integer64(value["seed"]),
        mode=value["mode"],
        num_draft_tokens=lengths if lengths == "auto" else integer(lengths, 0),
        stop=tuple(text(each) for each in array(value["stop"])),
        ignore_eos=boolean(value["ignore_eos"]),
        top_k=integer(value["top_k"], 0),
        top_p=_number(value["top_p"]),
        min_p=_number(value["min_p"]),
        repetition_penalty=_number(value["repetition_penalty"]),
        verification=value["verification"],
        logprobs=boolean(value["logprobs"]),
    )
    config.check()
    return config


def _number(value: object) -> float:
    return real(value, 0.0, _LARGEST)


def _digits(value: int) -> str:
    """64 bits as 16 hexadecimal digits: not every language has a number of JSON for them."""
    return f"{value % (1 << 64):016x}"


def _integer64(value: object) -> int:
    return int(hexadecimal(value, 16), 16)
