"""Sessions on disk: what was due is what comes, in the same bundle alone, and a refusal changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnidraft import GenerationConfig, LoadedBundle, Session, load_bundle
from omnidraft.errors import SessionError, SessionFileError
from omnidraft.runtime.bundle.bundle import MANIFEST, seal
from omnidraft.runtime.session.session_file import (
    decode_session,
    encode_session,
)
from support.places import ROOT

STORY = "Tell me a story."


@pytest.fixture(scope="module")
def weights(bundle: Path) -> LoadedBundle:
    return load_bundle(bundle)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_after_a_restart_the_next_token_is_the_same(
    weights: LoadedBundle, bundle: Path, tmp_path: Path, temperature: float
) -> None:
    """Saved after each round of an answer and between answers, taken up by another process."""
    session, files, expected = Session(weights), [], []
    request = GenerationConfig(
        max_new_tokens=48, temperature=temperature, seed=5, num_draft_tokens="auto", stop=("\u2603",)
    )
    session.chat(STORY, request).finish()
    answer = session.chat("And then?", request)
    for number, _ in enumerate(answer):
        files.append(tmp_path / f"{number}.session")
        session.save(files[-1])
    last = GenerationConfig(max_new_tokens=16, temperature=temperature, seed=9)
    session.save(tmp_path / "done.session")
    following = session.chat("Why?", last).finish()
    expected = [answer.token_ids, answer.text, following.token_ids]
    assert len(files) > 8, "the test needs several rounds"
    code = """
import json, sys
from omnidraft import GenerationConfig, Session, load_bundle
weights, found = load_bundle(sys.argv[1]), []
for file in sys.argv[3:]:
    session = Session(weights)
    session.load(file)
    answer = session.answer
    before = len(answer.token_ids)
    if answer.stop_reason is None:
        answer = session.resume().finish()
    last = session.chat("Why?", GenerationConfig(max_new_tokens=16, temperature=float(sys.argv[2]), seed=9)).finish()
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
    weights: LoadedBundle, tmp_path: Path, temperature: float, mode: Any, count: int, seed: int, rounds: int
) -> None:
    session, file = Session(weights), tmp_path / "a.session"
    answer = session.chat(STORY, GenerationConfig(20, temperature, seed, mode, count))
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


def test_an_answer_that_ended_by_a_stop_string_is_still_cut(weights: LoadedBundle, tmp_path: Path) -> None:
    session = Session(weights)
    whole = session.chat(STORY, GenerationConfig(max_new_tokens=30)).finish().text
    session.reset()
    answer = session.chat(STORY, GenerationConfig(max_new_tokens=30, stop=(whole[9:12],))).finish()
    session.save(tmp_path / "a")
    other = Session(weights)
    other.load(tmp_path / "a")
    assert other.answer is not None
    assert (other.answer.text, other.answer.stop_string) == (answer.text, answer.stop_string)
    request = GenerationConfig(max_new_tokens=12)
    a, b = session.chat("And?", request).finish(), other.chat("And?", request).finish()
    assert (a.prompt_ids, a.token_ids) == (b.prompt_ids, b.token_ids)


def test_a_refused_file_changes_nothing(weights: LoadedBundle, bundle: Path, tmp_path: Path) -> None:
    session, file = Session(weights), tmp_path / "a"
    session.chat(STORY, GenerationConfig(max_new_tokens=6)).finish()
    session.save(file)
    state, cache = decode_session(file.read_bytes())
    assert state.answer is not None
    limit = bundle_limit(session)
    saved, eos = state.answer, session.bundle.target.eos_ids[0]
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
    assert session.chat("And then?", GenerationConfig(max_new_tokens=4)).finish().token_ids


def test_a_session_takes_the_place_of_sessions_alone(weights: LoadedBundle, tmp_path: Path) -> None:
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
        with pytest.raises(SessionFileError, match="not a regular file"):
            session.save(tmp_path / "pipe", overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()


def bundle_limit(session: Session) -> int:
    return session.bundle.target.kv.max_length


def test_a_session_belongs_to_its_graphs(weights: LoadedBundle, bundle: Path, tmp_path: Path) -> None:
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
        Session(load_bundle(other)).load(tmp_path / "a")
    assert found.value.fault == "foreign_bundle"
