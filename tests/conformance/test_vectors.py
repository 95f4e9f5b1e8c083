"""Runs every vector of spec/vectors, and checks that none was left out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.conftest import PASSED, RAN
from conformance.decoding import run_sampling, run_stop
from conformance.decoding.run_compiled import run_invalid_tokenizer, run_tokenizer
from conformance.decoding.run_draft_length import run_draft_length
from conformance.decoding.run_generate import run_generate
from conformance.decoding.run_grammar import (
    run_calls,
    run_invalid_grammar,
    run_tokens,
    run_valid_grammar,
)
from conformance.decoding.run_tokenize import (
    run_draft_prompt,
    run_prompt,
    run_template,
    run_thought,
    run_tokenize,
)
from conformance.decoding.run_translate import run_translate
from conformance.decoding.run_verify import run_verify
from conformance.files import run_adapter, run_archive, run_cache, run_costs, run_map, run_sync, run_trace
from conformance.files.run_bundle import run_bundle, run_graph
from conformance.files.run_session import run_invalid_session, run_valid_session
from conformance.files.run_signing import run_signing
from conformance.learning import run_alignment, run_intervals, run_tensors
from conformance.vectors import ROOT, Vector, counts, vectors_of

RUNNERS: dict[str, Callable[[Vector], None]] = {
    "bundle": run_bundle,
    "bundle/graph": run_graph,
    "archive/address": run_archive.run_address,
    "archive/index": run_archive.run_index,
    "archive/invalid": run_archive.run_invalid,
    "archive/open": run_archive.run_open,
    "archive/valid": run_archive.run_valid,
    "adapter/fit": run_adapter.run_fit,
    "adapter/invalid": run_adapter.run_invalid,
    "adapter/valid": run_adapter.run_valid,
    "cache/invalid": run_cache.run_invalid,
    "cache/learn": run_cache.run_learn,
    "cache/load": run_cache.run_load,
    "cache/merge": run_cache.run_merge,
    "cache/valid": run_cache.run_valid,
    "costs": run_costs.run_costs,
    "draft_length": run_draft_length,
    "draft_prompt": run_draft_prompt,
    "generate": run_generate,
    "grammar/calls": run_calls,
    "grammar/generate": run_generate,
    "grammar/invalid": run_invalid_grammar,
    "grammar/prompt": run_prompt,
    "grammar/tokens": run_tokens,
    "grammar/valid": run_valid_grammar,
    "learner/align": run_alignment.run_align,
    "learner/average": run_tensors.run_average,
    "learner/calls": run_alignment.run_calls,
    "learner/guard": run_intervals.run_guard,
    "learner/interval": run_intervals.run_interval,
    "learner/mean": run_intervals.run_mean,
    "learner/rate": run_intervals.run_rate,
    "learner/trace": run_alignment.run_trace,
    "learner/vector": run_tensors.run_vector,
    "logprobs": run_generate,
    "lookup": run_sampling.run_lookup,
    "map/fingerprint": run_map.run_fingerprint,
    "map/invalid": run_map.run_invalid,
    "map/valid": run_map.run_valid,
    "random": run_sampling.run_random,
    "sampling": run_sampling.run_sampling,
    "session/invalid": run_invalid_session,
    "session/valid": run_valid_session,
    "signing": run_signing,
    "stop": run_stop.run_stop,
    "sync/pull": run_sync.run_pull,
    "sync/record": run_sync.run_record,
    "sync/compare": run_sync.run_compare,
    "template": run_template,
    "thought": run_thought,
    "tokenize": run_tokenize,
    "tokenizer": run_tokenizer,
    "tokenizer/invalid": run_invalid_tokenizer,
    "trace/invalid": run_trace.run_invalid,
    "trace/rows": run_trace.run_rows,
    "trace/valid": run_trace.run_valid,
    "translate": run_translate,
    "utf8": run_stop.run_utf8,
    "verify": run_verify,
}


@pytest.mark.parametrize("folder", counts())
def test_folder(folder: str) -> None:
    failures = []
    RAN[folder] = 0
    for vector in vectors_of(folder):
        try:
            RUNNERS[folder](vector)
        except (Exception, pytest.fail.Exception) as failure:
            failures.append(f"{vector['name']} ({vector['why']}): {type(failure).__name__} {failure}")
        RAN[folder] += 1
    PASSED[folder] = RAN[folder] - len(failures)
    assert not failures, "\n".join([f"{len(failures)} of {RAN[folder]} vectors fail", *failures])
    assert RAN[folder] == counts()[folder], "the manifest has another number of vectors"


def test_each_folder_of_the_claimed_levels_has_a_runner() -> None:
    assert sorted(RUNNERS) == sorted(counts())


def test_there_are_enough() -> None:
    assert sum(counts().values()) >= 150
    assert counts()["cache/invalid"] >= 25
    assert counts()["session/invalid"] >= 20


def test_the_generator_writes_what_is_committed(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("cryptography")
    script = ROOT.parent / "make_vectors.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    assert _files(tmp_path) == _files(ROOT)


def test_the_generator_knows_nothing_of_omnidraft() -> None:
    for path in [ROOT.parent / "make_vectors.py", *(ROOT.parent / "vectorlib").rglob("*.py")]:
        lines = path.read_text(encoding="utf-8").splitlines()
        imports = [line for line in lines if line.lstrip().startswith(("import ", "from "))]
        assert not [line for line in imports if "omnidraft" in line], path


def _files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
