"""Vectors of `session/invalid`: session files with one fault each, and the name of the fault."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from vectorlib.cases.files.cache import EXAMPLE
from vectorlib.cases.files.session import (
    BASE,
    CACHE,
    GOOD,
    GREEDY,
    IDENTITY,
    LAST,
    State,
    changed,
    pack,
)
from vectorlib.cases.manifests.manifests import pop, put
from vectorlib.reference.json_text import bits, dump
from vectorlib.reference.ngram_cache import encode
from vectorlib.writer import VectorWriter, vector

Case = tuple[str, str, str, bytes]  # name, why, fault, the file or its state
Change = Callable[[State], object]
NAN, INFINITE = float("nan"), float("inf")
LENGTH = len(BASE["answer"]["output"])


def write(writer: VectorWriter) -> None:
    given: dict[str, Any] = {"identity": IDENTITY, "map": "toy"}
    files, states = [], []
    for name, why, fault, data in _bytes():
        writer.file(f"session/invalid/{name}.bin", data)
        files.append(vector(name, why, {"file": f"{name}.bin", **given}, {"fault": fault}))
    for name, why, fault, state in (*_texts(), *_fields(), *_ranges(), *_other_bundle()):
        try:
            text = {"state": state.decode()}
        except UnicodeDecodeError:
            text = {"state_bytes": state.hex()}
        states.append(vector(name, why, {**text, **given}, {"fault": fault}))
    writer.file("session/invalid/cache.bin", CACHE)
    writer.vectors("session/invalid", "files", files)
    writer.vectors("session/invalid", "states", states)


def _bytes() -> Iterator[Case]:
    yield "empty", "no bytes", "not_a_session", b""
    yield "cache_file", "an n-gram cache is not a session", "not_a_session", CACHE
    yield "line_ends", "a transfer that changed the line ends", "not_a_session", GOOD.replace(b"\r\n", b"\n")
    yield "header_half", "cut inside the header", "truncated", GOOD[:20]
    yield "state_half", "cut inside the state", "truncated", GOOD[:100]
    yield "last_byte_missing", "cut before the last byte", "truncated", GOOD[:-1]
    for name, at, most in (("state", 16, 1 << 24), ("cache", 20, 1 << 28)):
        for word, size, fault in (
            ("huge", (1 << 32) - 1, "limits"),
            ("too_large", most + 1, "limits"),
            ("largest", most, "truncated"),
        ):
            data = GOOD[:at] + struct.pack("<I", size) + GOOD[at + 4 :]
            why = f"the header says {size} bytes of {name}: a reader must not reserve them"
            yield f"{name}_{word}", why, fault, data
    yield "one_byte_more", "a byte after the end", "trailing", GOOD + b"\0"
    for version in (0, 1, 2, 3, 4, 5, 6, 8):
        yield f"version_{version}", "another version", "version", pack(BASE, CACHE, version=version)
    yield "reserved", "the reserved field is not 0", "reserved", pack(BASE, CACHE, reserved=1)
    for name, at in (("state", 60), ("cache", len(GOOD) - 1)):
        flipped = GOOD[:at] + bytes([GOOD[at] ^ 1]) + GOOD[at + 1 :]
        yield f"flipped_{name}", f"a bit of the {name} changed", "checksum", flipped
    foreign = encode(replace(EXAMPLE, target="ab" * 32))
    yield "foreign_cache", "n-grams of another target", "cache", pack(BASE, foreign)
    yield "no_cache", "a cache of no bytes", "cache", pack(BASE, b"")


def _texts() -> Iterator[Case]:
    """States that are JSON, or nearly so, and are not written in the one way that there is."""
    text, writer = dump(BASE), b'"omnidraft":"0"'
    accented = dump(changed(lambda s: s.update(turns=[_turn("\u3041")], message="S")))
    cases: list[tuple[str, str, bytes]] = [
        ("no_state", "a state of no bytes", b""),
        ("state_list", "an array", b"[]"),
        ("not_utf8", "a byte that is not UTF-8", text.replace(writer, b'"omnidraft":"\xff"')),
        ("byte_order_mark", "a byte order mark", b"\xef\xbb\xbf" + text),
        ("deep", "3000 brackets", b"[" * 3000 + b"]" * 3000),
        ("spaced", "a space after a colon", text.replace(b":", b": ", 1)),
        ("newline", "a newline at the end", text + b"\n"),
        ("text_after", "another value at the end", text + b"{}"),
        ("order", "two fields change places", dump({"identity": BASE["identity"], **BASE})),
        ("graphs_order", "the graphs are not sorted", dump(changed(_turn_graphs))),
        ("field_twice", "a field occurs twice", b'{"omnidraft":"0",' + text[1:]),
        ("field_unknown", "a field that is not in the tables", dump({**BASE, "later": 1})),
        ("escaped", "a character that needs no escape", accented.replace("\u3041".encode(), b"\\u3041")),
        ("escape_upper", "an escape in upper case", text.replace(writer, b'"omnidraft":"\\u001F"')),
        ("escape_short", "the short escape of a newline", text.replace(writer, b'"omnidraft":"\\n"')),
        ("half_pair", "half a surrogate pair", text.replace(writer, b'"omnidraft":"\\ud83d"')),
        ("fraction", "0.0 is not an integer", text.replace(b'"top_k":0', b'"top_k":0.0')),
        ("exponent", "0e0 is not an integer", text.replace(b'"top_k":0', b'"top_k":0e0')),
        ("minus_zero", "-0 is not 0", text.replace(b'"top_k":0', b'"top_k":-0')),
        ("long_number", "an integer of 33 digits", text.replace(b'"top_k":0', b'"top_k":1' + b"0" * 32)),
    ]  # fmt: skip
    for name, why, state in cases:
        assert state != text, name
        yield name, why, "state", state


def _turn(message: str = "S", answer: Sequence[int] = (), results: Sequence[str] = ()) -> dict[str, Any]:
    return {"message": message, "results": list(results), "answer": list(answer)}


def _turn_graphs(state: State) -> None:
    graphs = state["identity"]["graphs"]
    state["identity"]["graphs"] = dict(reversed(graphs.items()))


def _fields() -> Iterator[Case]:
    """A field of another kind, and rules between fields."""
    for path in PATHS:
        yield (
            f"missing_{'_'.join(path)}",
            "the field is missing",
            "state",
            _made(pop(path)),
        )
        kind = f"kind_{'_'.join(path)}"
        yield kind, "a value of another kind", "state", _made(put(path, {"a": [True]}))
    answer: Any = lambda **values: lambda s: s["answer"].update(values)  # noqa: E731
    cases: list[tuple[str, str, Change]] = [
        ("ids_are_text", "a prompt that is not a list", answer(prompt="12")),
        ("ids_are_floats", "an id as 16 digits", answer(prompt=[bits(1.0)])),
        ("id_negative", "an id below 0", answer(prompt=[-1])),
        ("id_of_32_bits", "an id of 2^31", answer(prompt=[LAST + 1])),
        ("id_true", "true is not an id", answer(prompt=[True])),
        ("id_null", "null is not an id", answer(output=[None])),
        ("no_prompt", "a prompt without a token", answer(prompt=[])),
        ("random_short", "a random state of 15 digits", answer(random="0" * 15)),
        ("random_upper", "digits in upper case", answer(random="A" * 16)),
        ("random_number", "the random state is text", answer(random=5)),
        ("stop_reason_unknown", "a reason that does not exist", answer(stop_reason="bored")),
        ("complete", "it can go on, but has all its tokens", answer(output=[0] * GREEDY.max_new_tokens)),
        ("output_too_long", "more tokens than the config allows",
         answer(output=[0] * 13, stop_reason="length")),
        ("other_end", "it ended for its length, but is shorter", answer(stop_reason="length")),
        ("logprobs_unasked", "log-probabilities that were not asked for", answer(logprobs=[bits(-1.0)])),
        ("logprobs_absent", "log-probabilities were asked for", _config(logprobs=True)),
        ("logprobs_too_few", "one log-probability too few", _logprobs(-1.0, LENGTH - 1)),
        ("logprobs_too_many", "one log-probability too many", _logprobs(-1.0, LENGTH + 1)),
        ("context_of_plain", "mode plain has no drafter's context", _config(mode="plain")),
        ("context_of_lookup", "mode lookup has none either", _config(mode="lookup")),
        ("system_empty", "a system prompt without text", lambda s: s.update(system="")),
        ("turn_without_message", "an earlier turn, and an answer without its message",
         lambda s: s.update(turns=[_turn()])),
        ("message_without_answer", "a message, and no answer", lambda s: s.update(message="S", answer=None)),
        ("tools_empty", "tools without text", lambda s: s.update(tools="", message="S")),
        ("results_first", "results that no answer called for", lambda s: s.update(message="", results=["1"])),
        ("results_alone", "results, and no message", lambda s: s.update(results=["1"], answer=None)),
        ("results_and_message", "results and a message",
         lambda s: s.update(turns=[_turn()], message="S", results=["1"])),
        ("turn_results_first", "the same of an earlier turn",
         lambda s: s.update(turns=[_turn("", results=["1"])], message="S")),
        ("turn_results_and_message", "the same of an earlier turn",
         lambda s: s.update(turns=[_turn(), _turn(results=["1"])], message="S")),
        ("results_too_many", "1,025 results",
         lambda s: s.update(turns=[_turn()], message="", results=["1"] * 1025)),
        ("result_number", "a result is text", lambda s: s.update(turns=[_turn()], message="", results=[1])),
        ("turn_text", "a turn is an object", lambda s: s.update(turns=["S"], message="S")),
        ("fingerprint_short", "63 digits",
         lambda s: s["identity"].update(draft_fingerprint="d" * 63)),
        ("graph_digest_upper", "a hash in upper case",
         lambda s: s["identity"]["graphs"].update({"target/cpu/model.onnx": "0E" * 32})),
        ("adapter_short", "a digest of 63 digits", lambda s: s["identity"].update(drafter_adapter="a" * 63)),
    ]  # fmt: skip
    for name, why, change in cases:
        yield name, why, "state", _made(change)


PATHS: list[tuple[str, ...]] = [
    *((name,) for name in BASE),
    *(("identity", name) for name in IDENTITY),
    *(("costs", name) for name in BASE["costs"]),
    *(("answer", name) for name in BASE["answer"]),
    *(("answer", "config", name) for name in BASE["answer"]["config"]),
]


def _ranges() -> Iterator[Case]:
    """Each number, text and count beyond an end of its range."""
    configs: dict[str, list[Any]] = {
        "max_new_tokens": [0, -1, LAST + 1],
        "temperature": [bits(x) for x in (-1.0, 1e-05, NAN, INFINITE)],
        "seed": ["-000000000000001", "0" * 17],
        "mode": ["magic"],
        "num_draft_tokens": [-1, 49, "many"],
        "stop": [[""], ["a"] * 65, ["\u3041" * 342]],
        "ignore_eos": [0],
        "top_k": [-1, LAST + 1],
        "top_p": [bits(x) for x in (0.0, -0.5, 1.0000000000000002, NAN)],
        "min_p": [bits(x) for x in (-0.5, 1.0000000000000002, NAN)],
        "repetition_penalty": [bits(x) for x in (0.0, -1.0, INFINITE, NAN)],
        "verification": ["twice"],
    }
    for name, values in configs.items():
        for i, value in enumerate(values):
            yield f"range_{name}_{i}", _shown(value), "state", _made(_config(**{name: value}))
    costs: dict[str, list[Any]] = {
        "target": [
            [],
            [bits(0.0)],
            [bits(9.999999999999999e-10)],
            [bits(-1.0)],
            [bits(1.0)] * 257,
            [bits(2e9)],
            [bits(NAN)],
        ],
        "draft": [bits(x) for x in (0.0, 5e-324, -1.0, 2e9, INFINITE)],
        "host": [bits(x) for x in (-1.0, 2e9)],
        "acceptance": [bits(x) for x in (-0.5, 1.0000000000000002, NAN)],
    }
    for name, values in costs.items():
        for i, value in enumerate(values):
            changed_costs = _made(put(["costs", name], value))
            yield f"range_costs_{name}_{i}", _shown(value), "state", changed_costs
    for name, values in _lengths().items():
        for i, value in enumerate(values):
            changed_lengths = _made(put(["draft_length", name], value))
            yield f"range_draft_length_{name}_{i}", _shown(value), "state", changed_lengths
    for i, value in enumerate((0.5, NAN, -2e9)):
        yield f"range_logprobs_{i}", f"the log-probability {value}", "state", _made(_logprobs(value))
    long = {f"target/cpu/model.onnx.{i}": "0e" * 32 for i in range(256)}
    many = _made(lambda s: s["identity"]["graphs"].update(long))
    yield "graphs_too_many", "more than 256 files of graphs", "state", many
    yield "writer_too_long", "a version of 65 bytes", "state", _made(lambda s: s.update(omnidraft="0" * 65))


def _lengths() -> dict[str, list[Any]]:
    """Values that the counts of the draft length cannot have."""
    one, half, zero = bits(1.0), bits(0.5), bits(0.0)
    return {
        "seen": [[one] * 7, [one] * 9, [bits(2e9)] * 8, [bits(NAN)] * 8],
        "evaluated": [[one] * 7, [one] * 9, [half] * 8, [bits(2e9)] * 8, [bits(NAN)] * 8],
        "accepted": [[bits(-1.0)] * 8, [zero] * 7 + [one], []],
        "drafts": [bits(-1.0), bits(2e9), 0],
        "targets": [bits(NAN), bits(INFINITE)],
        "compared": [[one] * 4, [one] * 6, [bits(0.05)] * 5],
        "agreed": [[bits(1.5)] * 5],
        "idle": [-1, LAST + 1, one],
        "unread": [-1, LAST + 1, one],
        "written": [-1, LAST + 1, one],
        "share": [zero, bits(0.0024), bits(0.026)],
    }


def _other_bundle() -> Iterator[Case]:
    cases: list[tuple[str, str, str, Change]] = [
        ("foreign_drafter", "another drafter's vocabulary", "foreign_bundle",
         lambda s: s["identity"].update(draft_fingerprint="ab" * 32)),
        ("foreign_target", "another target's vocabulary", "foreign_bundle",
         lambda s: s["identity"].update(target_fingerprint="ab" * 32)),
        ("foreign_graph", "another quantisation of the same target", "foreign_bundle",
         lambda s: s["identity"]["graphs"].update({"target/cpu/model.onnx": "ab" * 32})),
        ("graph_missing", "one graph fewer", "foreign_bundle",
         lambda s: s["identity"]["graphs"].pop("drafter/cpu/model.onnx")),
        ("foreign_adapter", "the target had an adapter, and has none now", "foreign_adapter",
         lambda s: s["identity"].update(target_adapter="ad" * 32)),
        ("adapter_before_ids", "the adapter is checked before the ids", "foreign_adapter",
         lambda s: (s["identity"].update(target_adapter="ad" * 32), s["answer"].update(output=[13]))),
        ("target_id_outside", "the map has 13 target tokens", "id_range",
         lambda s: s["answer"].update(output=[13])),
        ("prompt_id_outside", "an id of the prompt", "id_range", lambda s: s["answer"].update(prompt=[13])),
        ("turn_id_outside", "an id of an earlier turn", "id_range",
         lambda s: s.update(turns=[_turn(answer=[13])], message="S")),
        ("draft_id_outside", "the map has 9 draft tokens", "id_range",
         lambda s: s["answer"].update(context=[9])),
        ("text_too_long", "66 tokens for 64 positions; the last token needs none", "context",
         lambda s: s["answer"].update(prompt=[0] * 64, output=[1, 1])),
    ]  # fmt: skip
    for name, why, fault, change in cases:
        yield name, why, fault, _made(change)


def _made(change: Change) -> bytes:
    return dump(changed(change))


def _config(**values: object) -> Change:
    return lambda s: s["answer"]["config"].update(values)


def _logprobs(value: float, count: int = LENGTH) -> Change:
    """That many log-probabilities, all of a value; LENGTH is the number of tokens of the output."""

    def change(state: State) -> None:
        state["answer"]["config"]["logprobs"] = True
        state["answer"]["logprobs"] = [bits(value)] * count

    return change


def _shown(value: object) -> str:
    return f"a value outside the range: {value!r:.40}"
