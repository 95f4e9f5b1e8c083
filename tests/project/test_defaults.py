"""spec/defaults.json owns the defaults; the Python runtime agrees with it."""

import inspect
import json
from dataclasses import asdict, fields

import pytest

from omnidraft.learning import averaged, compare
from omnidraft.learning.online import interval, interval_end
from omnidraft.learning.online.adapted_target import AdaptOptions
from omnidraft.learning.online.guard import GuardOptions
from omnidraft.learning.positions import from_traces
from omnidraft.learning.positions.alignment import Aligner
from omnidraft.learning.step import schedule, step_batch
from omnidraft.runtime.decoding import draft_length, length_state, prompt_lookup, speculate, verifier
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session import loaded_bundle
from omnidraft.runtime.session.api import GenerationConfig, Session
from omnidraft.runtime.traces import trace, trace_store
from omnidraft.runtime.vocab import cache_file, cache_table
from omnidraft.runtime.vocab.cache_store import open_cache
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.sync import record
from support.places import ROOT

DEFAULTS = json.loads((ROOT / "spec/defaults.json").read_text())


def test_generation_defaults_agree_with_the_spec() -> None:
    config = inspect.signature(Session.generate).parameters["config"].default
    assert config == GenerationConfig() == inspect.signature(Session.chat).parameters["config"].default
    names = ["max_new_tokens", "mode", "num_draft_tokens", "head_threshold", "verification"]
    for name in [*names, *(field.name for field in fields(SamplingConfig))]:
        assert getattr(config, name) == DEFAULTS[name], name


def test_limits_agree_with_the_spec() -> None:
    assert DEFAULTS["max_draft_tokens"] == draft_length.MAX_DRAFT_TOKENS
    assert DEFAULTS["max_proposed_tokens"] == speculate.MAX_PROPOSED


def test_cache_defaults_agree_with_the_spec() -> None:
    expected = DEFAULTS["cache"]
    for start in (NgramCache.__init__, NgramCache.of_table, open_cache):
        parameters = inspect.signature(start).parameters
        assert parameters["capacity"].default == expected["capacity"], start
        assert parameters["policy"].default == expected["policy"], start
    assert expected["max_pieces"] == cache_table.MAX_PIECES
    assert expected["max_entries"] == cache_file.MAX_ENTRIES


def test_what_block_verification_is_chosen_by_agrees_with_the_spec() -> None:
    assert DEFAULTS["block"] == {
        "gain": verifier.GAIN,
        "extra_seconds": verifier.EXTRA_SECONDS,
        "extra_seconds_per_token": verifier.EXTRA_SECONDS_PER_TOKEN,
        "usual_draft": loaded_bundle.USUAL_DRAFT,
    }


def test_sampling_and_lookup_agree_with_the_spec() -> None:
    assert all(field.default == DEFAULTS[field.name] for field in fields(SamplingConfig))
    expected = DEFAULTS["prompt_lookup"]
    assert (expected["longest"], expected["shortest"]) == (prompt_lookup.LONGEST, prompt_lookup.SHORTEST)


def test_draft_length_constants_agree_with_the_spec() -> None:
    expected = DEFAULTS["draft_length"]
    constants = {**vars(length_state), **vars(draft_length)}
    assert expected == {name: constants[name.upper()] for name in expected}
    assert prompt_lookup.SHORTEST == length_state.SHORTEST_MATCH
    assert inspect.signature(draft_length.MeasuredLength).parameters["longest"].default == expected["longest"]


def test_export_defaults_agree_with_the_spec() -> None:
    pytest.importorskip("torch", reason="exporting needs torch, which this Python does not have")
    from omnidraft.export import context_length

    expected = DEFAULTS["context"]
    assert expected == {name: getattr(context_length, name.upper()) for name in expected}


def test_trace_defaults_agree_with_the_spec() -> None:
    assert DEFAULTS["trace"] == {
        "max_bytes": trace_store.MAX_BYTES,
        "least_bytes": trace_store.LEAST_BYTES,
        "segments": trace_store.SEGMENTS,
        "sync_rounds": trace_store.SYNC_ROUNDS,
        "top": trace.TOP,
        "floor": trace.FLOOR,
        "window": trace.WINDOW,
    }


def test_what_a_learner_goes_by_agrees_with_the_spec() -> None:
    options = asdict(AdaptOptions())
    names = ("interval", "passes", "replayed", "memory")
    assert DEFAULTS["learner"] == {
        "keep": inspect.signature(Aligner).parameters["keep"].default,
        "open_generations": from_traces.OPEN,
        "factors": step_batch.OBJECTIVES,
        "warm_up": schedule.WARM_UP,
        "decay": schedule.DECAY,
        "mean_kept": averaged.KEPT,
        "guard": asdict(GuardOptions()),
        "max_rest": interval.MAX_COOLDOWN,
        "slower": interval.ROLLBACK_SCALE,
        "recovery": interval.RECOVERY_SCALE,
        "batch": interval_end.BATCH,
        **{name: options[name] for name in names},
    }


def test_sync_limits_agree_with_the_spec() -> None:
    pytest.importorskip("cryptography", reason="publishing needs cryptography")
    from omnidraft.sync import trial

    assert DEFAULTS["sync"] == {
        "max_bytes": record.MOST_BYTES,
        "max_text_bytes": record.MOST_TEXT,
        "days": record.DAYS,
        "least_generations": compare.LEAST_GENERATIONS,
        "recent_records": trial.RECENT,
    }
