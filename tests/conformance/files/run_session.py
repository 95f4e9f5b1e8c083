"""Runners of `session/...`: real sessions on the graphs of `generate`: loaded, continued and refused."""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conformance.vectors import ROOT, Vector, map_of
from omnidraft import LanguageModel, TextSession, __version__
from omnidraft.errors import SessionFileError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import KvShape, ModelEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate, SystemSlot
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.session.session_file import (
    HEADER_BYTES,
    MAGIC,
    VERSION,
    decode_session,
    encode_session,
)
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer

_KV = KvShape(1, 1, 1, 64)


def run_valid_session(vector: Vector) -> None:
    given, expect = vector["input"], vector["expect"]
    path = ROOT / "session/valid" / given["file"]
    data = path.read_bytes()
    assert _state_in(data) == expect["state"]
    assert encode_session(*decode_session(data)) == data, "written again, the file is another one"
    session = _session(given)
    session.load(path)
    saved = _saved_state(session)
    state = {**expect["state"], "omnidraft": __version__}
    state["identity"] = {**state["identity"], "drafter_adapter": None}  # this session has no adapter
    if state["answer"] is not None and state["answer"]["context"] is None:
        state["answer"]["context"] = saved["answer"]["context"]  # this session has a drafter
    assert saved == state
    if expect["due"] is None:
        return
    output = expect["state"]["answer"]["output"]
    assert session.resume().finish().token_ids == output + expect["due"]
    if "context" in expect:
        assert _saved_state(session)["answer"]["context"] == expect["context"]


def run_invalid_session(vector: Vector) -> None:
    given = vector["input"]
    session = _session(given)
    before = dict(vars(session)), session.cache.entries()
    with tempfile.TemporaryDirectory() as name, pytest.raises(SessionFileError) as refused:
        session.load(_file(given, Path(name)))
    assert refused.value.fault == vector["expect"]["fault"], str(refused.value)
    assert (dict(vars(session)), session.cache.entries()) == before, "a refused file changed the session"


def _saved_state(session: TextSession) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy"
        session.save(copy)
        return _state_in(copy.read_bytes())


def _file(given: dict[str, Any], place: Path) -> Path:
    """The file of a vector: a given one, or one with a right header around a given state."""
    folder = ROOT / "session/invalid"
    if "file" in given:
        return folder / str(given["file"])
    state = bytes.fromhex(given["state_bytes"]) if "state_bytes" in given else given["state"].encode()
    cache = (folder / "cache.bin").read_bytes()
    sizes = len(state), len(cache), zlib.crc32(state), zlib.crc32(cache)
    path = place / "session"
    path.write_bytes(MAGIC + struct.pack("<6I", VERSION, 0, *sizes) + state + cache)
    return path


def _state_in(data: bytes) -> dict[str, Any]:
    size = struct.unpack_from("<I", data, 16)[0]
    state: dict[str, Any] = json.loads(data[HEADER_BYTES : HEADER_BYTES + size])
    return state


@cache
def _loaded(name: str) -> tuple[Graph, Graph, Tokenizer]:
    vocab_map = map_of(name)
    sizes = {"target": vocab_map.target_size, "drafter": vocab_map.draft_size}
    target, drafter = (Graph(ROOT / f"generate/{role}.onnx", _KV, size) for role, size in sizes.items())
    return target, drafter, LibraryTokenizer.from_file(ROOT / "tokenize/byte_level.tokenizer.json")


def _session(given: dict[str, Any]) -> TextSession:
    """A session of the bundle that a vector describes; its tokenizers are not used."""
    identity, vocab_map = given["identity"], map_of(given["map"])
    target, drafter, tokenizer = _loaded(given["map"])
    entries = {
        role: ModelEntry(
            role,
            "Table",
            f"{role}/cpu/model.onnx",
            role,
            _KV,
            size,
            "fp32",
            None,
            (),
            1,
            tokenizer_fingerprint=identity[f"{side}_fingerprint"],
        )
        for role, side, size in (
            ("target", "target", vocab_map.target_size),
            ("drafter", "draft", vocab_map.draft_size),
        )
    }
    assert identity["drafter_adapter"] is identity["target_adapter"] is None
    manifest = {
        "files": {name: {"sha256": digest} for name, digest in identity["graphs"].items()},
    }
    # With a place for a system prompt, tools have the generic form.
    costs, template = Costs((0.001,), 0.001, 0.0), PromptTemplate("", "", "", "", system=SystemSlot("", ""))
    bundle = Bundle(Path("vectors"), entries["target"], entries["drafter"], template, costs, "map", manifest)
    return TextSession(LanguageModel(bundle, target, tokenizer, vocab_map, drafter, tokenizer))
