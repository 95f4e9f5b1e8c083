"""A short run of the fuzzers that `make fuzz` runs for minutes."""

from __future__ import annotations

import pytest

from fuzz import fuzz_archive, fuzz_cache, fuzz_graph, fuzz_manifest, fuzz_sync, fuzz_trace


def test_mutated_caches_are_refused_by_name_or_valid() -> None:
    seen = fuzz_cache.fuzz(3_000, 120.0, seed=1)
    assert sum(seen.values()) == 3_000
    # The mutants reach every check that depends on the bytes alone, and some are still valid caches.
    assert set(seen) >= {
        "valid", "not_a_cache", "truncated", "version", "checksum", "reserved", "width", "limits",
        "section_length", "trailing_bytes", "spelling", "id_range", "duplicate", "order", "counts",
        "not_canonical", "foreign_vocabulary",
    }  # fmt: skip


def test_mutated_manifests_are_refused_in_a_sentence_or_right() -> None:
    seen = fuzz_manifest.fuzz(1_000, 120.0, seed=1)
    assert sum(seen.values()) == 1_000
    assert seen["valid"] > 10 and seen["BundleError"] > 500
    assert set(seen) == {"valid", "BundleError"}


def test_mutated_traces_are_refused_by_name_or_valid() -> None:
    seen = fuzz_trace.fuzz(2_000, 120.0, seed=3)
    assert sum(seen.values()) == 2_000
    assert set(seen) >= {
        "valid", "torn", "not_a_trace", "truncated", "version", "checksum", "reserved", "limits", "kind",
        "length", "number", "id_range", "counts", "mass", "order", "foreign_vocabulary",
    }  # fmt: skip


def test_mutated_records_of_a_store_are_refused_by_name_or_valid() -> None:
    seen = fuzz_sync.fuzz(3_000, 120.0, seed=1)
    assert sum(seen.values()) == 3_000
    assert set(seen) >= {
        "valid", "malformed", "other_kind", "version", "wrong_signature", "size",
    }  # fmt: skip


def test_mutated_graphs_name_no_file_outside() -> None:
    seen = fuzz_graph.fuzz(3_000, 120.0, seed=1)
    assert seen["compared"] > 300 and seen["refused"] > 300, seen


def test_mutated_archives_are_refused_by_name_or_the_same() -> None:
    seen = fuzz_archive.fuzz(1_500, 120.0, seed=1)
    assert sum(seen.values()) == 1_500
    assert set(seen) >= {
        "valid", "not_an_archive", "truncated", "header", "encrypted", "compressed", "outside", "alignment",
        "directory", "duplicate", "entries", "size", "checksum", "seal", "index",
    }, seen  # fmt: skip


def test_mutated_gguf_files_are_refused_in_a_sentence_or_read() -> None:
    pytest.importorskip("gguf")
    from fuzz import fuzz_gguf

    seen = fuzz_gguf.fuzz(2_000, 120.0, seed=1)
    assert sum(seen.values()) == 2_000
    assert set(seen) >= {
        "valid", "magic", "version", "counts", "truncated", "text", "twice", "type", "axes", "size", "offset",
        "overlap", "architecture", "value",
    }, seen  # fmt: skip
    assert not seen["other"], seen
