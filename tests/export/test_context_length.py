"""The context of a bundle is the target's own: the drafter's positions bind the drafter alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="exporting needs torch, which this Python does not have")

from omnidraft import GenerationConfig, TextSession, load
from omnidraft.checkpoints.checkpoint import Shape
from omnidraft.errors import ContextError, ExportError
from omnidraft.export.bundle import export_bundle
from omnidraft.export.context_length import context_lengths
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantization import FP32
from support.made_once import MadeOnce
from support.places import STARTERS

LONG, READS = 2048, 256  # positions of the target and of the drafter
GREEDY = GenerationConfig(max_new_tokens=40, num_draft_tokens=4)


def model(layers: int, heads: int, width: int, positions: int, layout: str = "shared") -> SimpleNamespace:
    shape = Shape(1000, layers, heads, width, 64, positions, (), None, None)
    return SimpleNamespace(checkpoint=SimpleNamespace(name="m", shape=shape), layout=layout)


SMOL, GEMMA, LLAMA_8B = model(30, 3, 64, 8192), model(18, 1, 256, 32768), model(32, 8, 128, 131072)
LLAMA_2 = model(32, 32, 128, 4096)
DRAFTER = model(2, 5, 32, 1024)


@pytest.mark.parametrize(
    ("target", "asked", "expected", "why"),
    [
        (SMOL, None, 8192, "8,192 tokens, the target's own (keys and values of up to 377 MB)"),
        (SMOL, 4000, 4000, "4,000 of the target's 8,192 tokens (keys and values of up to 184 MB), as asked"),
        (GEMMA, None, 8192, "8,192 of the target's 32,768 tokens (keys and values of up to 302 MB); --max-l"),
        (GEMMA, 32768, 32768, "32,768 tokens, the target's own (keys and values of up to 1,208 MB)"),
        (LLAMA_8B, None, 2048, "2,048 of the target's 131,072 tokens (keys and values of up to 537 MB); --m"),
        (LLAMA_2, None, 2048, "2,048 of the target's 4,096 tokens (keys and values of up to 2,147 MB); --m"),
        (model(30, 3, 64, 8192, "concat"), None, 5825, "5,825 of the target's 8,192 tokens (keys and values"),
    ],
)
def test_the_context_is_the_targets_own_as_far_as_memory_allows(
    target: SimpleNamespace, asked: int | None, expected: int, why: str
) -> None:
    lengths = context_lengths(target, DRAFTER, asked)  # type: ignore[arg-type]
    assert (lengths.of("target"), lengths.of("drafter")) == (expected, 1024)
    assert str(lengths).startswith(f"context: {why}")
    assert str(lengths).endswith("the drafter reads its last 1,024 tokens")


def test_float16_keys_and_values_leave_room_for_twice_the_positions() -> None:
    lengths = context_lengths(LLAMA_8B, DRAFTER, None, half_kv=True)  # type: ignore[arg-type]
    assert lengths.target == 4096
    assert "4,096 of the target's 131,072 tokens (float16 keys and values of up to 537 MB)" in str(lengths)
    assert context_lengths(LLAMA_2, DRAFTER, None, half_kv=True).target == 2048  # type: ignore[arg-type]


def test_a_drafter_with_more_positions_gets_those_of_the_target() -> None:
    lengths = context_lengths(DRAFTER, SMOL, None)  # type: ignore[arg-type]
    assert (lengths.target, lengths.drafter) == (1024, 1024)
    assert str(lengths) == "context: 1,024 tokens, the target's own (keys and values of up to 3 MB)"


@pytest.mark.parametrize("asked", [31, 8193, -1, 0])
def test_a_length_that_the_target_does_not_have_is_refused_with_the_range(asked: int) -> None:
    with pytest.raises(
        ExportError, match=rf"^a context of {asked} positions does not fit m; give 32 to 8192$"
    ):
        context_lengths(SMOL, DRAFTER, asked)  # type: ignore[arg-type]


def test_a_model_of_too_few_positions_is_refused() -> None:
    with pytest.raises(ExportError, match=r"^m has 16 positions, and the checks need 32; give another check"):
        context_lengths(SMOL, model(1, 1, 64, 16), None)  # type: ignore[arg-type]


def with_positions(checkpoint: Path, positions: int, place: Path) -> Path:
    """A copy of a checkpoint whose configuration has another number of positions."""
    shutil.copytree(checkpoint, place)
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = positions
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def long(made_once: MadeOnce) -> Path:
    """A float32 bundle whose target has eight times the positions of its drafter."""

    def make(place: Path) -> None:
        target = with_positions(STARTERS / "a", LONG, place / "a")
        drafter = with_positions(STARTERS / "drafter", READS, place / "drafter")
        report = export_bundle(str(target), str(drafter), place / "bundle", Options(FP32))
        (place / "context").write_text(report.context, encoding="utf-8")

    return made_once("long", make)


@pytest.fixture(scope="module")
def ids(long: Path) -> list[int]:
    """A prompt of 1,300 target ids, whose text has more draft ids than that and goes on as it began."""
    text = "".join(
        f"Ann has {n} apples and buys {n + 2}. She then has {2 * n + 2} apples. " for n in range(90)
    )
    return load(long / "bundle").target_tokenizer.encode(text)[:1300]


def test_an_export_keeps_both_contexts_and_says_so(long: Path) -> None:
    bundle = load(long / "bundle").bundle
    assert (bundle.target.kv.max_length, bundle.drafter.kv.max_length) == (LONG, READS)
    said = (long / "context").read_text(encoding="utf-8")
    assert said == (
        "context: 2,048 tokens, the target's own (keys and values of up to 25 MB); "
        "the drafter reads its last 256 tokens"
    )


def test_greedy_text_beyond_the_drafters_context_is_plain_text(long: Path, ids: list[int]) -> None:
    session = load(long / "bundle")
    accepted = 0
    for length in (200, 700, 1300):
        plain = session.generate(ids[:length], GREEDY, mode="plain").finish()
        drafted = session.generate(ids[:length], GREEDY).finish()
        assert len(plain.token_ids) > 10 and drafted.token_ids == plain.token_ids
        assert drafted.statistics.drafted > 0
        accepted += drafted.statistics.accepted
    assert accepted > 0, "the test needs accepted drafts"
    assert len(session.text.decoder.context) > READS, "the window has moved"


def test_a_conversation_beyond_the_drafters_context_goes_on_after_a_restore(
    long: Path, ids: list[int], tmp_path: Path
) -> None:
    whole, saved = load(long / "bundle"), load(long / "bundle")
    # No end token ends these answers: which text is sampled differs between processors by rounding.
    sampled = replace(GREEDY, temperature=1.0, seed=5, ignore_eos=True)
    message = whole.target_tokenizer.text_of(ids[:600]).decode("utf-8", "replace")
    expected = whole.chat(message, sampled).finish().token_ids
    answer = saved.chat(message, sampled)
    for _ in range(4):  # of up to 5 tokens each, of 40
        next(iter(answer))
    saved.save(tmp_path / "a.session")
    restored = TextSession(saved.loaded)
    restored.load(tmp_path / "a.session")
    assert len(restored.text.decoder.context) > READS
    assert restored.resume().finish().token_ids == expected
    again = [each.chat("And then?", sampled).finish().token_ids for each in (whole, restored)]
    assert again[0] == again[1]


def test_a_text_ends_with_the_targets_context_and_not_with_the_drafters(long: Path, ids: list[int]) -> None:
    session = load(long / "bundle")
    filled = [*ids, *ids][: LONG - 3]
    answer = session.generate(filled, GREEDY, ignore_eos=True).finish()
    assert (answer.stop_reason, len(answer.token_ids)) == ("context", 4)
    with pytest.raises(
        ContextError, match="has 2049 tokens and the context holds 2048; shorten it, or export"
    ):
        session.generate([*ids, *ids][: LONG + 1])
