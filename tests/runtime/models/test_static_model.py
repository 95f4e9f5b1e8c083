"""A bundle's static graphs in the runtime: the same tokens as the dynamic graph, however they are reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnidraft import GenerationConfig, TextSession, load, load_bundle
from omnidraft.errors import BundleError, ContextError, SessionFileError, SettingError
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.placement import placed
from omnidraft.runtime.decoding.model import Cancelled, SessionModel
from omnidraft.runtime.models.ort_model import Graph, OrtModel
from omnidraft.runtime.models.static_model import StaticGraphs, StaticModel
from omnidraft.runtime.session.api import LanguageModel
from support.places import STARTERS

KV_LENGTH, CHUNK, DRAFTED = 96, 16, 3
PROMPT = "Mia has 4 boxes with 12 pencils each. She gives 9 to her brother. How many pencils are left?"
WeightsOf = Callable[..., LanguageModel]


@pytest.fixture(scope="module")
def places(export_packages: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both starter pairs with static graphs, shorter than their dynamic ones."""
    from omnidraft.export.bundle import export_bundle
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.options import Options
    from omnidraft.export.quantize.quantization import FP32

    made = {}
    npu = NpuOptions(("coreml", "nnapi"), KV_LENGTH, CHUNK, DRAFTED)
    for name in ("a", "b"):
        made[name] = tmp_path_factory.mktemp("static") / name
        options = Options(FP32, max_length=128, npu=npu)
        export_bundle(str(STARTERS / name), str(STARTERS / "drafter"), made[name], options)
    return made


@pytest.fixture(scope="module")
def weights_of(places: dict[str, Path]) -> WeightsOf:
    """LanguageModel by starter, the target's place and the drafter's, each loaded once."""
    made: dict[tuple[str, ...], LanguageModel] = {}

    def load_once(name: str, target_on: str = "npu", drafter_on: str = "npu") -> LanguageModel:
        key = (name, target_on, drafter_on)
        if key not in made:
            made[key] = load_bundle(places[name], target_on=target_on, drafter_on=drafter_on)
        return made[key]

    return load_once


@pytest.fixture
def model(weights_of: WeightsOf) -> StaticModel:
    graphs = weights_of("a").target
    assert isinstance(graphs, StaticGraphs)
    return graphs.new_model()


@pytest.fixture
def dynamic(weights_of: WeightsOf) -> SessionModel:
    graph = weights_of("a", "cpu", "cpu").target
    assert isinstance(graph, Graph)
    return graph.new_model()


def some_ids(count: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(3, 8000, count)]


# Tokens


@pytest.mark.parametrize("starter", ["a", "b"])
@pytest.mark.parametrize(("target_on", "drafter_on"), [("npu", "npu"), ("npu", "cpu"), ("cpu", "npu")])
def test_every_place_and_draft_length_gives_the_same_text(
    weights_of: WeightsOf, starter: str, target_on: str, drafter_on: str
) -> None:
    """1 and 2 draft tokens pad a verification, 3 fill it, 8 go through the graph for prompts."""
    expected = (
        TextSession(weights_of(starter, "cpu", "cpu"))
        .generate(PROMPT, max_new_tokens=32, mode="plain")
        .finish()
    )
    weights = weights_of(starter, target_on, drafter_on)
    plain = TextSession(weights).generate(PROMPT, max_new_tokens=32, mode="plain").finish()
    assert plain.token_ids == expected.token_ids
    accepted = 0
    for count in (1, 2, DRAFTED, 8):
        answer = TextSession(weights).generate(PROMPT, max_new_tokens=32, num_draft_tokens=count).finish()
        assert answer.token_ids == expected.token_ids, count
        assert answer.statistics.drafted > 0
        accepted += answer.statistics.accepted
    assert accepted > 0


@pytest.mark.parametrize("length", [1, 2, DRAFTED + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 61, KV_LENGTH])
def test_prompts_of_any_length_give_the_dynamic_graphs_logits(
    model: StaticModel, dynamic: OrtModel, length: int
) -> None:
    ids = some_ids(length, length)
    logits, expected = model.score(ids), dynamic.score(ids)
    assert logits.shape == expected.shape == (length, model.vocab_size)
    assert np.abs(logits - expected).max() < 1e-4
    assert model.length == length


def test_only_the_rows_that_are_asked_for_come_back(model: StaticModel) -> None:
    ids = some_ids(50)
    whole = model.score(ids).copy()
    for count in (1, 2, 3, CHUNK, CHUNK + 1, 35, 50):
        model.rewind(0)
        assert np.array_equal(model.score(ids, count), whole[-count:])


def test_what_was_rewound_has_no_influence(model: StaticModel) -> None:
    ids = some_ids(40)
    model.score(ids[:20])
    expected = model.score(ids[20:24]).copy()
    model.score(some_ids(30, 9))
    model.rewind(20)
    assert np.array_equal(model.score(ids[20:24]), expected)


def test_a_full_context_ends_the_text_as_it_does_in_the_dynamic_graph(weights_of: WeightsOf) -> None:
    session = TextSession(weights_of("b"))
    ids = session.encode(PROMPT)
    answer = session.generate(ids, max_new_tokens=500, ignore_eos=True).finish()
    assert answer.stop_reason == "context"
    assert len(ids) + len(answer.token_ids) == KV_LENGTH + 1  # the last one is never read
    other = TextSession(weights_of("b", "cpu", "cpu"))
    expected = other.generate(
        ids, max_new_tokens=len(answer.token_ids), ignore_eos=True, mode="plain"
    ).finish()
    assert answer.token_ids == expected.token_ids


def test_a_prompt_longer_than_the_static_context_is_refused(weights_of: WeightsOf) -> None:
    ids = some_ids(KV_LENGTH + 4)
    with pytest.raises(ContextError, match=f"{len(ids)} tokens and the context holds {KV_LENGTH}"):
        TextSession(weights_of("a")).generate(ids)
    TextSession(weights_of("a", "cpu", "npu")).generate(ids, max_new_tokens=2).finish()  # the drafter slides


# Cancelling and going on


def test_a_cancelled_pass_leaves_the_context_as_it_was(model: StaticModel) -> None:
    """Also one that is cut between its chunks."""
    ids = some_ids(60)
    model.score(ids[:10])
    asked = iter([False, False, True])
    model.cancelled = lambda: next(asked)
    with pytest.raises(Cancelled):
        model.score(ids[10:])
    assert model.length == 10
    model.cancelled = lambda: False
    logits = model.score(ids[10:]).copy()
    model.rewind(0)
    model.score(ids[:10])
    assert np.array_equal(logits, model.score(ids[10:]))


def test_a_cancelled_answer_stops_and_a_saved_one_goes_on(weights_of: WeightsOf, tmp_path: Path) -> None:
    config = GenerationConfig(max_new_tokens=24, num_draft_tokens=1, seed=1)
    expected = TextSession(weights_of("b")).generate(PROMPT, config).finish().token_ids
    session = TextSession(weights_of("b"))
    answer = session.generate(PROMPT, config)
    pieces = iter(answer)
    for _ in range(6):
        next(pieces)
    session.save(tmp_path / "saved")
    answer.cancel()
    list(pieces)
    assert answer.stop_reason == "cancelled" and len(answer.token_ids) < 24
    restored = TextSession(weights_of("b"))
    restored.load(tmp_path / "saved")
    assert restored.resume().finish().token_ids == expected
    with pytest.raises(SessionFileError, match="other graphs of it"):
        TextSession(weights_of("b", "cpu", "cpu")).load(tmp_path / "saved")


# Places


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("tpu", "no graphs for 'tpu', it has cpu, npu, coreml, nnapi"),
        ("cpu:a=b", "no graphs for 'cpu'"),
        ("npu:soc", "provider option 'soc' is not NAME=VALUE"),
    ],
)
def test_a_place_that_is_not_there_is_refused(places: dict[str, Path], where: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        load(places["a"], target_on=where)


def test_an_accelerator_that_this_onnxruntime_lacks_is_refused(places: dict[str, Path]) -> None:
    import onnxruntime

    if "CoreMLExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CoreML")
    with pytest.raises(BundleError, match=r"no CoreMLExecutionProvider here, it has .*CPUExecutionProvider"):
        load(places["a"], drafter_on="coreml")


def test_a_bundle_without_static_graphs_says_so(bundle: Path) -> None:
    with pytest.raises(SettingError, match="export again with --npu"):
        load(bundle, target_on="npu")


def test_the_manifest_says_how_each_accelerator_is_used(places: dict[str, Path]) -> None:
    bundle = open_bundle(places["a"])
    options = bundle.target.places["coreml"].provider.options
    assert options["ModelFormat"] == "MLProgram" and options["RequireStaticInputShapes"] == "1"
    checks = bundle.manifest["checks"]["parity"]
    for role in ("target", "drafter"):
        assert bundle.manifest[role]["npu"]["providers"]["coreml"]["directories"] == ["ModelCacheDirectory"]
        assert checks[role]["npu-float"]["max_difference"] < 1e-4
        assert checks[role]["npu-float"]["greedy_agreement"] > 0.98


def test_the_memory_of_a_place_is_told(places: dict[str, Path]) -> None:
    bundle = open_bundle(places["a"])
    there = memory_need(placed(bundle, target_on="npu"))
    here = memory_need(bundle)
    assert there.kv < here.kv
    assert there.target != here.target
