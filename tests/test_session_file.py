"""Sessions on disk: what was due is what comes, and each fault is one named error."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from omnidraft import Request, Session, Weights, load_weights
from omnidraft.errors import SessionError, SessionFileError
from omnidraft.runtime.bundle import MANIFEST, seal
from omnidraft.runtime.conversation import Turn
from omnidraft.runtime.draft_length import Costs
from omnidraft.runtime.session_file import (
    HEADER_BYTES,
    Answer,
    Drafted,
    Identity,
    State,
    decode_session,
    encode_session,
)

STORY = "Tell me a story."


@pytest.fixture(scope="module")
def weights(bundle: Path) -> Weights:
    return load_weights(bundle)


def example(turns: int = 2) -> State:
    answer = Answer(
        request=Request(temperature=0.5, seed=2**64 - 1, stop=("\n\n", "\u3042")),
        prompt=(1, 2, 3),
        output=(4, 5),
        context=(7, 8, 9),
        passes=(3, 1),
        drafter=Drafted((0, 7, 8), (2, 1), 1),
        draft_length={"tested": [4.0, 0.1 + 0.2], "idle": 3},
        random=0x8000000000000001,
        stop_reason=None,
    )
    return State(
        omnidraft="0.1.0",
        identity=Identity("d" * 64, "t" * 64, {"target/cpu/model.onnx": "a" * 64}),
        costs=Costs((0.001, 0.0011), 0.0002, 1e-5, 1e-5, 0.5),
        turns=tuple(Turn(f"message {i} \u3042\U0001f9d1\u200d\U0001f680", (i, i + 1)) for i in range(turns)),
        message="hello",
        answer=answer,
    )


# The format


def test_what_is_written_is_read() -> None:
    for state in (example(), example(0), replace(example(), answer=None, message=None, turns=())):
        data = encode_session(state, b"cache")
        assert decode_session(data) == (state, b"cache")
        assert encode_session(*decode_session(data)) == data


def test_the_bytes_are_as_the_specification_shows() -> None:
    data = encode_session(example(), b"cache")
    assert data[:8] == bytes.fromhex("894f44534e0d0a1a")
    version, reserved, state_bytes, cache_bytes, state_crc, cache_crc = struct.unpack_from("<6I", data, 8)
    assert (version, reserved, cache_bytes, HEADER_BYTES) == (1, 0, 5, 32)
    text = data[32 : 32 + state_bytes]
    assert (zlib.crc32(text), zlib.crc32(b"cache")) == (state_crc, cache_crc)
    value = json.loads(text)
    assert value["answer"]["random"] == "8000000000000001"
    assert value["answer"]["request"]["seed"] == "f" * 16
    assert str(Path.home()).encode() not in data


def sealed(change: Callable[[Any], object]) -> bytes:
    """The example with a change to its state, checksums right."""
    data = encode_session(example(), b"cache")
    size = struct.unpack_from("<I", data, 16)[0]
    value = json.loads(data[32 : 32 + size])
    changed = change(value)
    text = json.dumps(value if changed is None else changed).encode()
    return (
        struct.pack("<8s6I", data[:8], 1, 0, len(text), 5, zlib.crc32(text), zlib.crc32(b"cache"))
        + text
        + b"cache"
    )


WHOLE = encode_session(example(), b"cache")


@pytest.mark.parametrize(
    ("fault", "data"),
    [
        ("not_a_session", b""),
        ("not_a_session", b"PK\x03\x04" + bytes(60)),
        ("truncated", WHOLE[:5]),
        ("truncated", WHOLE[:31]),
        ("truncated", WHOLE[:40]),
        ("truncated", WHOLE[:-1]),
        ("trailing", WHOLE + b"\0"),
        ("version", WHOLE[:8] + struct.pack("<I", 2) + WHOLE[12:]),
        ("reserved", WHOLE[:12] + struct.pack("<I", 1) + WHOLE[16:]),
        ("truncated", WHOLE[:16] + struct.pack("<I", 2**32 - 1) + WHOLE[20:]),
        ("checksum", WHOLE[:60] + bytes([WHOLE[60] ^ 1]) + WHOLE[61:]),
        ("checksum", WHOLE[:-1] + b"E"),
        ("state", sealed(lambda s: [])),
        ("state", sealed(lambda s: s.pop("turns"))),
        ("state", sealed(lambda s: s["turns"].append({"message": 3, "answer": []}))),
        ("state", sealed(lambda s: s["turns"].append({"message": "\ud83d", "answer": []}))),
        ("state", sealed(lambda s: s["answer"].update(prompt=[]))),
        ("state", sealed(lambda s: s["answer"].update(prompt=[-1]))),
        ("state", sealed(lambda s: s["answer"].update(prompt=[1.5]))),
        ("state", sealed(lambda s: s["answer"].update(prompt=[True]))),
        ("state", sealed(lambda s: s["answer"].update(prompt="12"))),
        ("state", sealed(lambda s: s["answer"].update(output=[1] * 129))),
        ("state", sealed(lambda s: s["answer"]["drafter"].update(window=-1))),
        ("state", sealed(lambda s: s["answer"]["drafter"].update(passes=[2]))),
        ("state", sealed(lambda s: s["answer"].update(passes=[9]))),
        ("state", sealed(lambda s: s["answer"].update(random="1"))),
        ("state", sealed(lambda s: s["answer"].update(random=5))),
        ("state", sealed(lambda s: s["answer"].update(stop_reason="bored"))),
        ("state", sealed(lambda s: s["answer"].update(draft_length=3))),
        ("state", sealed(lambda s: s["answer"]["request"].update(temperature=-1))),
        ("state", sealed(lambda s: s["answer"]["request"].update(temperature="hot"))),
        ("state", sealed(lambda s: s["answer"]["request"].update(mode="magic"))),
        ("state", sealed(lambda s: s["answer"]["request"].update(mode=["trie"]))),
        ("state", sealed(lambda s: s["answer"]["request"].update(num_draft_tokens=4.5))),
        ("state", sealed(lambda s: s["answer"]["request"].update(stop=[""]))),
        ("state", sealed(lambda s: s["answer"]["request"].update(ignore_eos=1))),
        ("state", sealed(lambda s: s["costs"].update(draft=float("nan")))),
        ("state", sealed(lambda s: s["costs"].update(target=[]))),
    ],
)
def test_each_failure_has_a_name(fault: str, data: bytes) -> None:
    with pytest.raises(SessionFileError) as found:
        decode_session(data)
    assert found.value.fault == fault


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.integers(0, len(WHOLE)), st.booleans())
def test_the_reader_is_total(noise: bytes, at: int, checksums: bool) -> None:
    """Whatever is written into a file, also with checksums put right, it is read or refused by name."""
    data = bytearray(WHOLE[:at] + noise + WHOLE[at + len(noise) :])
    if checksums and len(data) >= 32 + 5:
        size = len(data) - 32 - 5
        data[8:32] = struct.pack("<6I", 1, 0, size, 5, zlib.crc32(data[32:-5]), zlib.crc32(data[-5:]))
    try:
        state, cache = decode_session(bytes(data))
    except SessionFileError:
        return
    assert isinstance(state, State) and isinstance(cache, bytes)


# With a bundle


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_after_a_restart_the_next_token_is_the_same(
    weights: Weights, bundle: Path, tmp_path: Path, temperature: float
) -> None:
    """Saved after each round of an answer and between answers, taken up by another process."""
    session, files, expected = Session(weights), [], []
    request = Request(
        max_new_tokens=48, temperature=temperature, seed=5, num_draft_tokens="auto", stop=("\u2603",)
    )
    session.chat(STORY, request).finish()
    answer = session.chat("And then?", request)
    for number, _ in enumerate(answer):
        files.append(tmp_path / f"{number}.session")
        session.save(files[-1])
    last = Request(max_new_tokens=16, temperature=temperature, seed=9)
    session.save(tmp_path / "done.session")
    following = session.chat("Why?", last).finish()
    expected = [answer.token_ids, answer.text, following.token_ids]
    assert len(files) > 8, "the test needs several rounds"
    code = """
import json, sys
from omnidraft import Request, Session, load_weights
weights, found = load_weights(sys.argv[1]), []
for file in sys.argv[3:]:
    session = Session(weights)
    session.load(file)
    answer = session.answer
    before = len(answer.token_ids)
    if answer.stop_reason is None:
        answer = session.resume().finish()
    last = session.chat("Why?", Request(max_new_tokens=16, temperature=float(sys.argv[2]), seed=9)).finish()
    found.append([before, answer.token_ids, answer.text, last.token_ids])
print(json.dumps(found))
"""
    chosen = [*files[:-1:3], tmp_path / "done.session"]
    out = subprocess.run(
        [sys.executable, "-c", code, bundle, str(temperature), *chosen],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ).stdout  # fmt: skip
    found = json.loads(out)
    assert [f[1:] for f in found] == [expected] * len(chosen)
    assert [f[0] for f in found] == sorted({f[0] for f in found}), "saved at different places"


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    temperature=st.sampled_from([0.0, 0.7, 1.3]),
    mode=st.sampled_from(["trie", "match", "direct", "lookup", "plain"]),
    count=st.sampled_from([1, 3, 7]),
    seed=st.integers(0, 2**64 - 1),
    rounds=st.integers(0, 6),
)
def test_a_saved_session_goes_on_as_it_would_have(
    weights: Weights, tmp_path: Path, temperature: float, mode: Any, count: int, seed: int, rounds: int
) -> None:
    session, file = Session(weights), tmp_path / "a.session"
    answer = session.chat(STORY, Request(20, temperature, seed, mode, count))
    for _ in range(rounds):
        next(iter(answer), None)
    session.save(file)
    other = Session(weights)
    other.load(file)
    assert other.cache.entries() == session.cache.entries()
    other.save(tmp_path / "b.session")
    assert (tmp_path / "b.session").read_bytes() == file.read_bytes()
    if answer.stop_reason is not None:
        with pytest.raises(SessionError, match="no unfinished generation"):
            other.resume()
        return
    resumed = other.resume().finish()
    answer.finish()
    assert (resumed.token_ids, resumed.text, resumed.stop_reason) == (
        answer.token_ids, answer.text, answer.stop_reason,
    )  # fmt: skip


def test_an_answer_that_ended_by_a_stop_string_is_still_cut(weights: Weights, tmp_path: Path) -> None:
    session = Session(weights)
    whole = session.chat(STORY, Request(max_new_tokens=30)).finish().text
    session.reset()
    answer = session.chat(STORY, Request(max_new_tokens=30, stop=(whole[9:12],))).finish()
    session.save(tmp_path / "a")
    other = Session(weights)
    other.load(tmp_path / "a")
    assert other.answer is not None
    assert (other.answer.text, other.answer.stop_string) == (answer.text, answer.stop_string)
    request = Request(max_new_tokens=12)
    a, b = session.chat("And?", request).finish(), other.chat("And?", request).finish()
    assert (a.prompt_ids, a.token_ids) == (b.prompt_ids, b.token_ids)


def test_a_refused_file_changes_nothing(weights: Weights, bundle: Path, tmp_path: Path) -> None:
    session, file = Session(weights), tmp_path / "a"
    session.chat(STORY, Request(max_new_tokens=6)).finish()
    session.save(file)
    state, cache = decode_session(file.read_bytes())
    assert state.answer is not None
    limit = bundle_limit(session)
    saved, eos = replace(state.answer, passes=()), session.bundle.target.eos_ids[0]
    answers = {
        "id_range": replace(saved, output=(8192,)),
        "context": replace(saved, prompt=(1,) * limit, output=(2, 2)),
        "state": replace(saved, output=(eos, 5), stop_reason=None),
    }
    files = {name: encode_session(replace(state, answer=a), cache) for name, a in answers.items()}
    files["foreign_bundle"] = encode_session(
        replace(state, identity=replace(state.identity, target_fingerprint="0" * 64)), cache
    )
    files["cache"] = encode_session(state, b"abc")
    before = session.answer, session.turns, session.cache.entries(), session.costs
    for fault, data in files.items():
        file.write_bytes(data)
        with pytest.raises(SessionFileError, match=r"begin a new session") as found:
            session.load(file)
        assert found.value.fault == fault
        assert (session.answer, session.turns, session.cache.entries(), session.costs) == before
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(SessionFileError) as found:
            session.load(place)
        assert found.value.fault == "unreadable"
    with pytest.raises(SessionFileError, match="choose another place") as found:
        session.save(tmp_path / "no" / "such" / "place")
    assert found.value.fault == "unwritable"
    assert session.chat("And then?", Request(max_new_tokens=4)).finish().token_ids


def test_a_session_takes_the_place_of_sessions_alone(weights: Weights, tmp_path: Path) -> None:
    session, link = Session(weights), tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    session.save(link)
    assert link.is_symlink() and (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a").chmod(0o644)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:50])
    session.save(tmp_path / "a")  # over a damaged one
    assert decode_session((tmp_path / "a").read_bytes())
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    session.save_cache(tmp_path / "cache")
    (tmp_path / "essay").write_text("mine")
    for name in ("cache", "essay"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(SessionFileError, match="no session file, so it is not replaced") as found:
            session.save(tmp_path / name)
        assert found.value.fault == "unwritable" and (tmp_path / name).read_bytes() == before
        session.save(tmp_path / name, overwrite=True)
        assert decode_session((tmp_path / name).read_bytes())
    os.mkfifo(tmp_path / "pipe")
    for overwrite in (False, True):
        with pytest.raises(SessionFileError, match="no regular file"):
            session.save(tmp_path / "pipe", overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()


def bundle_limit(session: Session) -> int:
    return session.bundle.target.kv.max_length


def test_a_session_belongs_to_its_graphs(weights: Weights, bundle: Path, tmp_path: Path) -> None:
    """The same tokenizers, and another graph: another quantisation, say."""
    session = Session(weights)
    session.generate(STORY, max_new_tokens=4).finish()
    session.save(tmp_path / "a")
    other = Path(shutil.copytree(bundle, tmp_path / "other"))
    graph = other / "target/cpu/model.onnx"
    graph.write_bytes(graph.read_bytes() + b"\x12\x00")  # an empty field more
    manifest = json.loads((other / MANIFEST).read_text())
    manifest["files"]["target/cpu/model.onnx"] = {
        "bytes": graph.stat().st_size, "sha256": hashlib.sha256(graph.read_bytes()).hexdigest(),
    }  # fmt: skip
    manifest["seal"] = seal(manifest)
    (other / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(SessionFileError) as found:
        Session(load_weights(other)).load(tmp_path / "a")
    assert found.value.fault == "foreign_bundle"
