"""`--quant auto`: forms tried in torch, products that keep 8 bits, the text that a model writes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("export_packages")

import torch  # noqa: E402

from omnidraft.checkpoints.checkpoint import read_checkpoint  # noqa: E402
from omnidraft.checkpoints.thin_model import ThinModel, thin_model  # noqa: E402
from omnidraft.export.bundle import export_bundle  # noqa: E402
from omnidraft.export.choose import own_text, search  # noqa: E402
from omnidraft.export.choose.search import FormSearch, groups_of  # noqa: E402
from omnidraft.export.choose.torch_forms import TorchForms  # noqa: E402
from omnidraft.export.graph.markers import MarkedSite  # noqa: E402
from omnidraft.export.graph.skeleton import skeleton  # noqa: E402
from omnidraft.export.measure_quality import source_rows  # noqa: E402
from omnidraft.export.options import Options  # noqa: E402
from omnidraft.export.quantize.form_size import size_of  # noqa: E402
from omnidraft.export.quantize.quantization import INT4, INT8  # noqa: E402
from omnidraft.runtime.bundle.bundle import open_bundle  # noqa: E402
from omnidraft.runtime.chat.prompt_template import PromptTemplate  # noqa: E402
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer  # noqa: E402
from omnidraft.sample_texts import TextPiece, pieces_of, sample_texts  # noqa: E402
from omnidraft.text_quality import AIM  # noqa: E402
from support.places import STARTERS  # noqa: E402

Model = tuple[ThinModel, Sequence[MarkedSite], list[TextPiece]]


@pytest.fixture(scope="module")
def spiky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Starter a with two products that 4 bits break.

    In each block of the products `down` of two layers two columns are 64 times as large as the others, and
    their inputs as much smaller: the model is the same, but 4 bits round the other columns to zero.
    """
    place: Path = shutil.copytree(STARTERS / "a", tmp_path_factory.mktemp("spiky") / "a")
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
    with torch.no_grad():
        for layer in (1, 3):
            mlp = model.model.layers[layer].mlp
            mlp.down_proj.weight[:, ::16] *= 64
            mlp.up_proj.weight[::16] /= 64
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def model(spiky: Path) -> Model:
    checkpoint = read_checkpoint(str(spiky))
    thin = thin_model(checkpoint)
    sites = skeleton(checkpoint, thin, 128).weights.sites
    tokenizer = LibraryTokenizer.from_file(spiky / "tokenizer.json")
    template = PromptTemplate("Question: ", "\nAnswer:")
    pieces = pieces_of(sample_texts()[:6], tokenizer, template, [], 96)[::3]
    return thin, sites, pieces


@pytest.fixture(scope="module")
def forms(model: Model) -> TorchForms:
    return TorchForms(*model)


def searched(forms: TorchForms, model: Model, calibration: Any = None) -> FormSearch:
    return FormSearch(forms, model[1], model[0].tied, 7_000_000, calibration, lambda _: None)


def test_torch_scores_what_the_source_does(forms: TorchForms, model: Model, spiky: Path) -> None:
    rows = source_rows(read_checkpoint(str(spiky)))
    nll, count = 0.0, 0
    for piece in model[2]:
        logits = torch.from_numpy(rows(piece.ids))
        logs = torch.log_softmax(logits, 1)[:-1]
        nll -= float(logs.gather(1, torch.tensor(piece.ids[1:])[:, None]).sum())
        count += len(piece.ids) - 1
    assert forms.tokens == count
    assert forms.source.nll == pytest.approx(nll / count, abs=1e-5)
    assert forms.source.kl == pytest.approx(0, abs=1e-6)
    part = forms.part(100)
    assert 50 <= part.tokens <= 100 < forms.tokens


def test_int4_breaks_the_model_and_auto_keeps_8_bits_where_they_are_needed(
    forms: TorchForms, model: Model
) -> None:
    found = searched(forms, model)
    form = next(found.candidates())
    assert found.trials[0].form == "int4" and found.trials[0].loss > 2 * AIM
    assert form.bits == 4 and {"layers.1.down", "layers.3.down"} <= form.int8_sites
    assert len(form.int8_sites) <= 8, "no more than a few of all products"
    assert forms.loss(form) <= AIM
    tried = {trial.form: trial for trial in found.trials}
    assert tried[form.name].bytes < size_of(model[1], model[0].tied, INT8)


def test_the_cheapest_form_is_taken_where_it_suffices(
    forms: TorchForms, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where nothing does, float32 is."""
    monkeypatch.setattr(FormSearch, "_by_sensitivity", lambda *_: [])
    losses = {"int4": 0.05, "int4-k-quant": 0.02, "int4-gptq": 0.01}
    monkeypatch.setattr(forms, "loss", lambda form, *_: losses.get(form.name, 1.0))
    found = searched(forms, model, calibration=lambda _: [])
    candidates = found.candidates()
    assert [next(candidates).name, next(candidates).name] == ["int4-k-quant", "int4-gptq"]
    losses.update({"int4-k-quant": 0.04, "int4-gptq": 0.04})
    assert [form.name for form in searched(forms, model, calibration=lambda _: []).candidates()] == ["fp32"]
    losses["int8"] = 0.03
    assert [form.name for form in searched(forms, model).candidates()] == ["int8", "fp32"]
    losses["int4"] = 0.2
    far = searched(forms, model, calibration=lambda _: [])
    list(far.candidates())
    assert not {"int4-k-quant", "int4-gptq"} & {trial.form for trial in far.trials}, "out of reach"


def test_an_export_finds_the_form_and_confirms_it_in_the_graph(
    spiky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, stages = tmp_path / "bundle", list[str]()
    options = Options(INT4, INT4, 128, search=True)
    monkeypatch.setitem(search._REACH, "k-quant", 0.0)
    monkeypatch.setitem(search._REACH, "gptq", 0.0)
    report = export_bundle(
        str(spiky), str(STARTERS / "drafter"), out, options, lambda what, *_: stages.append(what)
    )
    assert report.quality is not None and report.quality.whole.loss <= AIM
    losses = {trial.form: trial.loss for trial in report.trials}
    assert losses[report.quantization] == pytest.approx(report.quality.whole.loss, abs=0.01), "in torch"
    bundle = open_bundle(out)
    assert bundle.target.quantization.startswith("int4-m") and bundle.drafter.quantization == "int4"
    checks = bundle.manifest["checks"]
    assert {"layers.1.down", "layers.3.down"} <= set(checks["int8_sites"])
    assert [trial["form"] for trial in checks["tried"]] == [trial.form for trial in report.trials]
    assert not any("loses" in warning for warning in report.warnings)
    assert any(stage.startswith("try int4, ") for stage in stages)
    assert any(stage.startswith("measure the sensitivity, ") for stage in stages)


def test_groups_are_products_of_layers_side_by_side() -> None:
    products = [f"layers.{i}.{site}" for i in range(30) for site in ("qkv", "o", "gate_up", "down")]
    groups = groups_of([*products, "lm_head"])
    assert len(groups) <= search.MOST_GROUPS
    assert sorted(name for group in groups for name in group) == sorted([*products, "lm_head"])
    assert ("layers.0.qkv", "layers.1.qkv") in groups and ("lm_head",) in groups
    assert groups_of(products[:40]) == [(name,) for name in products[:40]]


def test_a_model_writes_the_same_text_again(
    model: Model, spiky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_text, "TOKENS", 6)
    monkeypatch.setattr(own_text, "_OPENINGS", ("The", "def "))
    tokenizer = LibraryTokenizer.from_file(spiky / "tokenizer.json")

    def write(*ends: int, template: PromptTemplate | None = None) -> own_text.Rows:
        bare = template or PromptTemplate("", "")
        return own_text.own_text(model[0], tokenizer, bare, (ends, []), lambda *_: None)

    rows = write()
    assert len(rows) == 2 * own_text.ROWS and len({tuple(row) for row in rows}) > own_text.ROWS
    opening, first = tokenizer.encode("The"), rows[: own_text.ROWS]
    assert all(row[: len(opening)] == opening and len(row) == len(opening) + 6 for row in first)
    assert write() == rows
    end = rows[0][len(opening) + 1]
    ended = write(end)
    assert all(end not in row[len(opening) : -1] for row in ended[: own_text.ROWS])
    monkeypatch.setattr(own_text, "_QUESTIONS", ("How many?",))
    asked = write(template=PromptTemplate("Question: ", "\nAnswer:"))
    assert tokenizer.text_of(asked[0]).startswith(b"Question: How many?\nAnswer:")
