"""Vectors of `session/valid`: session files on the graphs of `generate`; session_invalid.py has bad ones."""

import copy
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from vectorlib.cases.decoding.generate_tasks import TEXT
from vectorlib.cases.files.cache import EXAMPLE
from vectorlib.reference.generate import MARGIN, Task, generate
from vectorlib.reference.json_text import bits, dump
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
    "drafter_adapter": None,
    "target_adapter": None,
}
GOLDEN = 0x9E3779B97F4A7C15  # what each uniform adds to the state of SplitMix64
GREEDY = replace(TEXT, num_draft_tokens=3, max_new_tokens=12)
PLAIN = replace(GREEDY, mode="plain", sampling=Sampling(1.0), seed=77)
LOOKUP = replace(GREEDY, mode="lookup", sampling=Sampling(0.7), seed=78, prompt=TOY.t("S LA F S LA"))
State = dict[str, Any]


def pack(state: State, cache: bytes, *, version: int = 7, reserved: int = 0) -> bytes:
    """The bytes of a session file."""
    text = dump(state)
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
        "max_new_tokens": task.max_new_tokens, "temperature": bits(sampling.temperature),
        "seed": f"{task.seed:016x}", "mode": task.mode, "num_draft_tokens": task.num_draft_tokens,
        "stop": [], "ignore_eos": False, "top_k": 0, "top_p": bits(1.0), "min_p": bits(0.0),
        "repetition_penalty": bits(1.0), "verification": "token", "logprobs": False,
    }  # fmt: skip
    answer = {
        "config": config, "prompt": task.prompt, "output": output, "logprobs": [],
        "context": task.draft_prompt if task.drafts else [],
        "random": f"{random_state:016x}",
        "stop_reason": None,
    }  # fmt: skip
    costs = {
        "target": [bits(0.001), bits(0.0011)], "draft": bits(1.2e-05), "host": bits(0.0),
        "acceptance": bits(0.5),
    }  # fmt: skip
    state: State = {
        "omnidraft": "0",
        "identity": IDENTITY,
        "costs": costs,
        "draft_length": {
            "seen": [bits(3.8), bits(0.99)] + [bits(0.0)] * 6,
            "evaluated": [bits(2.9), bits(0.97)] + [bits(0.0)] * 6,
            "accepted": [bits(1.9), bits(0.97)] + [bits(0.0)] * 6,
            "drafts": bits(1.2e-05),
            "targets": bits(3.0),
            "compared": [bits(1.0)] * 5,
            "agreed": [bits(0.1)] * 5,
            "idle": 3,
            "unread": 21,
            "written": 7,
            "share": bits(0.0025),
        },
        "system": None,
        "tools": None,
        "turns": [],
        "message": None,
        "results": [],
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
        expect: dict[str, Any] = {"state": state, "due": due}
        if due is not None and state["answer"]["config"]["mode"] in ("plain", "lookup"):
            expect["context"] = []
        valid.append(vector(name, why, given, expect))
    writer.vectors("session/valid", "files", valid)


def _valid() -> Iterator[tuple[str, str, State, bytes, list[int] | None]]:
    empty = encode(CacheTable())
    yield "greedy", "saved in the middle of an answer, with n-grams", BASE, CACHE, DUE
    yield "before_the_first_round", "saved before the first token", *_with(state_of(GREEDY, 0), empty)
    yield "sampled", "the random state is the one after 5 uniforms", *_with(state_of(PLAIN, 5), empty)
    yield "lookup", "mode lookup continues without a drafter's context", *_with(state_of(LOOKUP, 2), empty)
    greedy = replace(PLAIN, sampling=Sampling())
    yield "plain", "mode plain continues without a drafter's context", *_with(state_of(greedy, 2), empty)
    unlearned = changed(lambda s: s["answer"].update(context=None))
    yield "without_drafter", "context null: saved where no drafter was loaded", unlearned, empty, DUE
    no_answer = {**BASE, "answer": None}
    yield "no_answer", "a session that has only costs and a cache", no_answer, CACHE, None
    adapter = changed(lambda s: s["identity"].update(drafter_adapter="ad" * 32))
    yield "other_drafter_adapter", "the drafter had an adapter: a notice and no fault", adapter, CACHE, DUE
    finished = changed(lambda s: s["answer"].update(stop_reason="cancelled"))
    yield "cancelled", "it was cancelled, so it is not resumed", finished, CACHE, None
    yield "conversation", "an earlier turn, and the message being answered", _turns("ab", "S"), empty, DUE
    told = _turns("ab", "S")
    yield "system", "a conversation with a system prompt", {**told, "system": "Be \u3042."}, empty, DUE
    yield "tools", "a conversation with tools, whose results are being answered", _called(), empty, DUE
    taken_back = {**told, "message": None, "answer": None}
    yield "taken_back", "every message has its answer: the last one was taken back", taken_back, empty, None
    yield "escapes", "each kind of character in a string", _turns(ODD_TEXT, "S"), empty, DUE
    yield "settings", "numbers and texts that languages print in their own ways", _settings(), empty, None
    huge = changed(lambda s: s["answer"]["config"].update(max_new_tokens=LAST, seed="f" * 16, top_k=LAST))
    yield "largest_numbers", "counts of 31 bits, a seed of 64", huge, CACHE, None


# Quotation mark, backslash, slash, all control characters, DEL, line separators, private use, an emoji.
ODD_TEXT = '"\\/' + "".join(map(chr, range(32))) + "\x7f\x80\u2028\u2029\ue000\ufeff\uffff\u3041\U0001f680"
LAST = (1 << 31) - 1


def _turns(first: str, message: str) -> State:
    turns = [
        {"message": first, "results": [], "answer": TOY.t("S F")},
        {"message": "", "results": [], "answer": []},
    ]
    return changed(lambda s: s.update(turns=turns, message=message))


TOOLS = '{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}'


def _called() -> State:
    """Two answers that call tools."""
    turns = [
        {"message": "ab", "results": [], "answer": TOY.t("S F")},
        {"message": "", "results": ["12", "\u3042"], "answer": TOY.t("S")},
    ]
    return changed(lambda s: s.update(tools=TOOLS, turns=turns, message="", results=["[]"]))


def _settings() -> State:
    """Numbers whose shortest text differs between languages, and as many costs as a file may hold."""
    state = changed(lambda s: None)
    numbers = [1e-07, 1.2e-05, 0.0001, 0.1, 1 / 3, 1.0, 3.0, 1e-9, 1e9]
    state["costs"]["target"] = [bits(x) for x in numbers] + [bits(1.0)] * (256 - len(numbers))
    state["costs"]["host"] = bits(5e-324)
    state["answer"]["config"] |= {
        "temperature": bits(0.7), "stop": ["\n\n", "\r", "\u3042\u0301"], "ignore_eos": True, "top_k": 40,
        "top_p": bits(0.95), "min_p": bits(0.05), "repetition_penalty": bits(1.1), "verification": "auto",
        "num_draft_tokens": "auto", "logprobs": True, "max_new_tokens": 3,
    }  # fmt: skip
    logprobs = [bits(-0.0), bits(-1e-300), bits(-123.456)]
    state["answer"].update(output=[3, 3, 3], logprobs=logprobs, stop_reason="length")
    return state


def _with(saved: tuple[State, list[int]], cache: bytes) -> tuple[State, bytes, list[int]]:
    return saved[0], cache, saved[1]


def changed(change: Callable[[State], object]) -> State:
    """The state of `greedy` with a change."""
    state = copy.deepcopy(BASE)
    change(state)
    return state
