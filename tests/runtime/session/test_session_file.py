"""Sessions on disk continue as they would have, on the same bundle alone; a refusal changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from omnidraft import GenerationConfig, LanguageModel, TextSession, load_bundle
from omnidraft.errors import SessionFileError
from omnidraft.runtime.session.session_file import decode_session, encode_session
from support.manifests import rewrite
from support.places import ROOT

STORY = "Tell me a story."


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_after_a_restart_the_next_token_is_the_same(
    loaded: LanguageModel, bundle: Path, tmp_path: Path, temperature: float
) -> None:
    """Saved after each round of an answer and between answers, continued by another process."""
    # Above temperature 0 the drafts change which text a seed gives, so their number is fixed there.
    count: Literal["auto"] | int = "auto" if temperature == 0.0 else 4
    session, files, expected = TextSession(loaded), [], []
    config = GenerationConfig(
        max_new_tokens=48, temperature=temperature, seed=5, num_draft_tokens=count, stop=("\u2603",)
    )
    session.chat(STORY, config).finish()
    answer = session.chat("And then?", config)
    for number, _ in enumerate(answer):
        files.append(tmp_path / f"{number}.session")
        session.save(files[-1])
    last = GenerationConfig(max_new_tokens=16, temperature=temperature, seed=9, num_draft_tokens=count)
    session.save(tmp_path / "done.session")
    following = session.chat("Why?", last).finish()
    expected = [answer.token_ids, answer.text, following.token_ids]
    assert len(files) > 8, "the test needs several rounds"
    code = """
import json, sys
from omnidraft import GenerationConfig, TextSession, load_bundle
loaded, results, temperature = load_bundle(sys.argv[1]), [], float(sys.argv[2])
count = "auto" if temperature == 0.0 else 4
for file in sys.argv[3:]:
    session = TextSession(loaded)
    session.load(file)
    answer = session.answer
    before = len(answer.token_ids)
    if answer.stop_reason is None:
        answer = session.resume().finish()
    last = GenerationConfig(max_new_tokens=16, temperature=temperature, seed=9, num_draft_tokens=count)
    last = session.chat("Why?", last).finish()
    results.append([before, answer.token_ids, answer.text, last.token_ids])
print(json.dumps(results))
"""
    chosen = [*files[:-1:3], tmp_path / "done.session"]
    out = subprocess.run(
        [sys.executable, "-c", code, bundle, str(temperature), *chosen],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    ).stdout  # fmt: skip
    results = json.loads(out)
    assert [r[1:] for r in results] == [expected] * len(chosen)
    assert [r[0] for r in results] == sorted({r[0] for r in results}), "saved at different places"


def test_a_refused_file_changes_nothing(loaded: LanguageModel, bundle: Path, tmp_path: Path) -> None:
    session, file = TextSession(loaded), tmp_path / "a"
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
        with pytest.raises(SessionFileError, match=r"begin a new session") as caught:
            session.load(file)
        assert caught.value.fault == fault
        assert (session.answer, session.turns, session.cache.entries(), session.costs) == before
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(SessionFileError) as caught:
            session.load(place)
        assert caught.value.fault == "unreadable"
    with pytest.raises(SessionFileError, match=r"such: make it first\); choose another place") as caught:
        session.save(tmp_path / "no" / "such" / "place")
    assert caught.value.fault == "unwritable"
    assert session.chat("And then?", GenerationConfig(max_new_tokens=4)).finish().token_ids


def test_a_session_takes_the_place_of_sessions_alone(loaded: LanguageModel, tmp_path: Path) -> None:
    session, link = TextSession(loaded), tmp_path / "link"
    link.symlink_to(tmp_path / "a")
    session.save(link)
    assert link.is_symlink() and (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a").chmod(0o644)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:50])
    session.save(tmp_path / "a")  # over a damaged file
    assert decode_session((tmp_path / "a").read_bytes())
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    session.save_cache(tmp_path / "cache")
    (tmp_path / "essay").write_text("mine")
    for name in ("cache", "essay"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(SessionFileError, match="is not a session file, so it is not replaced") as caught:
            session.save(tmp_path / name)
        assert caught.value.fault == "unwritable" and (tmp_path / name).read_bytes() == before
        session.save(tmp_path / name, overwrite=True)
        assert decode_session((tmp_path / name).read_bytes())
    os.mkfifo(tmp_path / "pipe")
    for overwrite in (False, True):
        with pytest.raises(SessionFileError, match="not a regular file"):
            session.save(tmp_path / "pipe", overwrite=overwrite)
    assert (tmp_path / "pipe").is_fifo()


def bundle_limit(session: TextSession) -> int:
    return session.bundle.target.kv.max_length


def test_a_session_belongs_to_its_graphs(loaded: LanguageModel, bundle: Path, tmp_path: Path) -> None:
    """The same tokenizers with another graph, as after another quantisation."""
    session = TextSession(loaded)
    session.generate(STORY, max_new_tokens=4).finish()
    session.save(tmp_path / "a")
    other = Path(shutil.copytree(bundle, tmp_path / "other"))
    graph = other / "target/cpu/model.onnx"
    graph.write_bytes(graph.read_bytes() + b"\x12\x00")  # one more field, which is empty
    listed = {"bytes": graph.stat().st_size, "sha256": hashlib.sha256(graph.read_bytes()).hexdigest()}
    rewrite(other, lambda manifest: manifest["files"].update({"target/cpu/model.onnx": listed}))
    with pytest.raises(SessionFileError) as caught:
        TextSession(load_bundle(other)).load(tmp_path / "a")
    assert caught.value.fault == "foreign_bundle"
