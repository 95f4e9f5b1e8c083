"""Vectors of `session/valid` and `session/invalid`: session files on the graphs of `generate`."""

import copy
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from vectorlib.cases.decoding.generate import TEXT
from vectorlib.cases.files.cache import EXAMPLE
from vectorlib.reference.generate import MARGIN, Task, generate
from vectorlib.reference.ngram_cache import CacheTable, encode
from vectorlib.reference.random_source import MASK, RandomSource, uniforms_of
from vectorlib.reference.sampling import Sampling
from vectorlib.reference.vocab_map import TOY
from vectorlib.writer import VectorWriter, vector

MAGIC = b"\x89ODSN\r\n\x1a"
IDENTITY = {
    "draft_fingerprint": "dd" * 32,
    "target_fingerprint": "ee" * 32,
    "graphs": {"drafter/cpu/model.onnx": "0d" * 32, "target/cpu/model.onnx": "0e" * 32},
}
GOLDEN = 0x9E3779B97F4A7C15  # what each uniform adds to the state of SplitMix64
GREEDY = replace(TEXT, num_draft_tokens=3, max_new_tokens=12)
PLAIN = replace(GREEDY, mode="plain", sampling=Sampling(1.0), seed=77)
LOOKUP = replace(GREEDY, mode="lookup", sampling=Sampling(0.7), seed=78, prompt=TOY.t("S LA F S LA"))
State = dict[str, Any]


def pack(state: State, cache: bytes, *, version: int = 2, reserved: int = 0) -> bytes:
    """The bytes of a session file."""
    text = json.dumps(state, sort_keys=True, separators=(",", ":")).encode()
    head = struct.pack(
        "<8s6I", MAGIC, version, reserved, len(text), len(cache), zlib.crc32(text), zlib.crc32(cache)
    )
    return head + text + cache


def state_of(task: Task, num_rounds: int) -> tuple[State, list[int]]:
    """A session that was saved after `num_rounds` rounds, and the tokens that are due."""
    random = RandomSource(uniforms_of(task.seed), MARGIN)
    rounds, output = generate(task, random), list[int]()
    for _ in range(num_rounds):
        output += next(rounds)["emitted"]
    random_state = (task.seed + GOLDEN * len(random.used)) & MASK
    due = [t for each in rounds for t in each["emitted"]]
    sampling = task.sampling
    config = {
        "max_new_tokens": task.max_new_tokens, "temperature": sampling.temperature, "mode": task.mode,
        "ignore_eos": False, "seed": f"{task.seed:016x}", "num_draft_tokens": task.num_draft_tokens,
        "stop": [], "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
        "verification": "token", "logprobs": False, "head_threshold": 1.0,
    }  # fmt: skip
    answer = {
        "config": config, "prompt": task.prompt, "output": output, "logprobs": [],
        "context": [] if task.mode == "lookup" else task.draft_prompt,
        "random": f"{random_state:016x}",
        "stop_reason": None,
    }  # fmt: skip
    costs = {"target": [0.001, 0.0011], "draft": 0.0002, "host": 0.0, "read": 0.0, "acceptance": 0.5}
    state: State = {
        "omnidraft": "0",
        "identity": IDENTITY,
        "costs": costs,
        "turns": [],
        "message": None,
        "answer": answer,
    }
    return state, due


BASE, DUE = state_of(GREEDY, 2)
CACHE = encode(EXAMPLE)
GOOD = pack(BASE, CACHE)


def write(writer: VectorWriter) -> None:
    valid = []
    for name, why, state, cache, due in _valid():
        writer.file(f"session/valid/{name}.bin", pack(state, cache))
        given = {"file": f"{name}.bin", "identity": IDENTITY, "map": "toy"}
        valid.append(vector(name, why, given, {"state": state, "due": due}))
    writer.vectors("session/valid", "files", valid)
    invalid = []
    for name, why, fault, data in (*_bytes(), *_states()):
        writer.file(f"session/invalid/{name}.bin", data)
        given = {"file": f"{name}.bin", "identity": IDENTITY, "map": "toy"}
        invalid.append(vector(name, why, given, {"fault": fault}))
    writer.vectors("session/invalid", "files", invalid)


def _valid() -> Iterator[tuple[str, str, State, bytes, list[int] | None]]:
    empty = encode(CacheTable())
    yield "greedy", "saved in the middle of an answer, with n-grams", BASE, CACHE, DUE
    yield "before_the_first_round", "saved before the first token", *_with(state_of(GREEDY, 0), empty)
    yield (
        "sampled",
        "the random state is the one after 5 uniforms",
        *_with(state_of(PLAIN, 5), empty),
    )
    yield "lookup", "mode lookup continues without a drafter's context", *_with(state_of(LOOKUP, 2), empty)
    unlearned = _changed(lambda s: s["answer"].update(context=None))
    yield "without_drafter", "context null: saved where no drafter was loaded", unlearned, empty, DUE
    no_answer = {**BASE, "answer": None}
    yield "no_answer", "a session that has only costs and a cache", no_answer, CACHE, None
    conversation = _changed(
        lambda s: s.update(turns=[{"message": "ぁ \U0001f680", "answer": TOY.t("S F")}], message="S")
    )
    yield (
        "conversation",
        "an earlier turn, text beyond ASCII, and the message being answered",
        conversation,
        empty,
        DUE,
    )


def _with(saved: tuple[State, list[int]], cache: bytes) -> tuple[State, bytes, list[int]]:
    return saved[0], cache, saved[1]


def _bytes() -> Iterator[tuple[str, str, str, bytes]]:
    yield "empty", "no bytes", "not_a_session", b""
    yield "cache_file", "an n-gram cache is not a session", "not_a_session", CACHE
    yield "line_ends", "a transfer that changed the line ends", "not_a_session", GOOD.replace(b"\r\n", b"\n")
    yield "header_half", "cut inside the header", "truncated", GOOD[:20]
    yield "state_half", "cut inside the state", "truncated", GOOD[:100]
    yield "last_byte_missing", "cut before the last byte", "truncated", GOOD[:-1]
    huge = GOOD[:16] + struct.pack("<I", (1 << 32) - 1) + GOOD[20:]
    yield "state_huge", "the header says 4 GB of state: a reader must not reserve them", "truncated", huge
    yield "one_byte_more", "a byte after the end", "trailing", GOOD + b"\0"
    yield "version_1", "the version before this one", "version", pack(BASE, CACHE, version=1)
    yield "version_3", "a later version", "version", pack(BASE, CACHE, version=3)
    yield "version_0", "version 0 does not exist", "version", pack(BASE, CACHE, version=0)
    yield "reserved", "the reserved field is not 0", "reserved", pack(BASE, CACHE, reserved=1)
    for name, at in (("state", 60), ("cache", len(GOOD) - 1)):
        flipped = GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]
        yield f"flipped_{name}", f"a bit of the {name} changed", "checksum", flipped


def _states() -> Iterator[tuple[str, str, str, bytes]]:
    """Complete files with a state that is refused."""
    cases: list[tuple[str, str, str, Callable[[State], object]]] = [
        ("field_missing", "the field turns is missing", "state", lambda s: s.pop("turns")),
        ("ids_are_text", "a prompt that is not a list", "state", lambda s: s["answer"].update(prompt="12")),
        ("no_prompt", "a prompt without a token", "state", lambda s: s["answer"].update(prompt=[])),
        ("unknown_mode", "an unknown mode", "state",
         lambda s: s["answer"]["config"].update(mode="magic")),
        ("random_short", "a random state of 15 digits",
         "state", lambda s: s["answer"].update(random="0" * 15)),
        ("complete", "it can go on, but has all its tokens", "state",
         lambda s: s["answer"].update(output=[0] * GREEDY.max_new_tokens)),
        ("seed_negative", "a seed of 16 characters that are not hexadecimal digits", "state",
         lambda s: s["answer"]["config"].update(seed="-000000000000001")),
        ("turn_without_message", "an earlier turn, and no message of the last one", "state",
         lambda s: s.update(turns=[{"message": "S", "answer": []}])),
        ("foreign_drafter", "another drafter's vocabulary", "foreign_bundle",
         lambda s: s["identity"].update(draft_fingerprint="ab" * 32)),
        ("foreign_graph", "another quantisation of the same target", "foreign_bundle",
         lambda s: s["identity"]["graphs"].update({"target/cpu/model.onnx": "ab" * 32})),
        ("target_id_outside", "the map has 13 target tokens", "id_range",
         lambda s: s["answer"].update(output=[13])),
        ("draft_id_outside", "the map has 9 draft tokens", "id_range",
         lambda s: s["answer"].update(context=[9])),
        ("text_too_long", "66 tokens for 64 positions; the last token needs none", "context",
         lambda s: s["answer"].update(prompt=[0] * 64, output=[1, 1])),
    ]  # fmt: skip
    for name, why, fault, change in cases:
        yield name, why, fault, pack(_changed(change), CACHE)
    foreign = encode(replace(EXAMPLE, target="ab" * 32))
    yield "foreign_cache", "n-grams of another target", "cache", pack(BASE, foreign)
    yield "no_cache", "a cache of no bytes", "cache", pack(BASE, b"")


def _changed(change: Callable[[State], object]) -> State:
    state = copy.deepcopy(BASE)
    change(state)
    return state
