"""What a form costs in quality of text: how it is measured, kept, refused where it is hostile, and shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnidraft.doctor.pair import quality_check
from omnidraft.export.graph.markers import EMBEDDING, HEAD, MarkedSite, Part
from omnidraft.export.measure_quality import quality_warnings
from omnidraft.export.quantize.form_size import size_of
from omnidraft.export.quantize.quantization import named
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.sample_texts import LONGEST, NAME, SampleText, TextPiece, pieces_of, sample_texts
from omnidraft.text_quality import (
    MAX_KL,
    MAX_PERPLEXITY,
    Quality,
    TextQuality,
    measure_quality,
    read_quality,
)
from support.command_line import Run, config
from support.manifests import rewrite
from support.places import STARTERS

WIDTH = 5


class Constant:
    """A model that gives the same logits everywhere, and notes what it reads."""

    vocab_size, max_length = WIDTH, 100

    def __init__(self, logits: Sequence[float]) -> None:
        self.logits, self.length, self.read = np.array(logits, np.float32), 0, list[int]()

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> np.ndarray:
        self.length += len(tokens)
        self.read += tokens
        return np.tile(self.logits, (len(tokens), 1))

    def rewind(self, length: int) -> None:
        self.length = length


def quality(loss: float, source: float = 10.0) -> Quality:
    return Quality(NAME, TextQuality(100, source * (1 + loss), source, 0.1, 0.9), {})


def test_the_figures_are_those_of_their_definitions() -> None:
    p, q = np.array([0.5, 0.2, 0.1, 0.1, 0.1]), np.array([0.2, 0.5, 0.1, 0.1, 0.1])
    pieces = [TextPiece("a", (3, 0, 1, 0)), TextPiece("b", (2, *[0] * 80))]
    model = Constant(np.log(q).tolist())
    found = measure_quality(model, pieces, lambda ids: np.log(np.tile(p, (len(ids), 1))), name="n")
    assert model.read == [3, 0, 1, 2, *[0] * 79]  # the last id of a piece predicts nothing
    assert found.kinds["a"].tokens == 3 and found.kinds["b"].tokens == 80 and found.whole.tokens == 83
    assert found.kinds["a"].perplexity == pytest.approx(math.exp(-(2 * math.log(0.2) + math.log(0.5)) / 3))
    assert found.whole.perplexity == pytest.approx(math.exp(-(82 * math.log(0.2) + math.log(0.5)) / 83))
    assert found.whole.source_perplexity == pytest.approx(
        math.exp(-(82 * math.log(0.5) + math.log(0.2)) / 83)
    )
    assert found.whole.kl == pytest.approx(0.3 * math.log(0.5 / 0.2), rel=1e-5)
    assert found.whole.agreement == 0.0
    same = measure_quality(model, pieces, lambda ids: np.log(np.tile(q, (len(ids), 1))), name="n").whole
    assert same.loss == pytest.approx(0, abs=1e-6) and same.kl == pytest.approx(0, abs=1e-6)
    assert same.agreement == 1.0


def test_without_a_source_the_perplexity_is_told_alone() -> None:
    whole = measure_quality(Constant([0.0] * WIDTH), [TextPiece("a", (0, 1, 2))], name="n").whole
    assert whole.perplexity == pytest.approx(WIDTH)
    assert (whole.source_perplexity, whole.kl, whole.agreement, whole.loss) == (None, None, None, 0.0)
    assert whole.sentence == "perplexity 5.00 over 2 tokens"


@pytest.mark.parametrize("logits", [[math.nan] * WIDTH, [1e30, -1e30, -1e30, 0, 0]])
def test_a_broken_model_gives_what_a_manifest_holds(logits: list[float]) -> None:
    pieces = [TextPiece("a", (1, 1, 1, 1))]
    found = measure_quality(Constant(logits), pieces, lambda ids: np.zeros((len(ids), WIDTH)), name="n")
    assert (found.whole.perplexity, found.whole.kl) == (MAX_PERPLEXITY, MAX_KL)
    manifest = json.loads(json.dumps({"checks": {"quality": found.as_json()}}, allow_nan=False))
    assert read_quality(manifest) == found


def change(value: object, *path: str) -> Callable[[dict[str, Any]], None]:
    def make(entry: dict[str, Any]) -> None:
        for name in path[:-1]:
            entry = entry[name]
        entry[path[-1]] = value

    return make


RANGES: dict[tuple[str, ...], tuple[object, ...]] = {
    ("perplexity",): (0.5, 1e10, "9", None, True, [], -1),
    ("source_perplexity",): (0, 1e300, None),
    ("kl",): (-0.1, 1e4, "0"),
    ("agreement",): (1.1, -0.1, None),
    ("tokens",): (0, 1.0, 1 << 53, True),
    ("text",): ("x" * 65, 3),
    ("kinds",): ({str(i): {} for i in range(65)}, [], {"x" * 65: {}}, {"a": 1}, {"a": {"tokens": 1}}),
    (): (None, [], "x", {}),
}
HOSTILE = [change(value, "quality", *path) for path, values in RANGES.items() for value in values]


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_value_out_of_its_range_is_as_if_absent(fault: Callable[[dict[str, Any]], None]) -> None:
    checks = {"quality": quality(0.1).as_json()}
    assert read_quality({"checks": checks}) == quality(0.1)
    fault(checks)
    assert read_quality({"checks": checks}) is None


SITES = [
    MarkedSite(EMBEDDING, (Part("embed", (1000, 64)),)),
    MarkedSite("layers.0.qkv.weight", (Part("q", (64, 64)), Part("k", (32, 64)), Part("v", (32, 64)))),
    MarkedSite("layers.0.down.weight", (Part("down", (64, 96)),)),
    MarkedSite(HEAD, (Part("head", (1000, 64)),)),
]


@pytest.mark.parametrize(("loss", "warned"), [(-0.1, False), (0.0499, False), (0.0501, True), (1e7, True)])
def test_a_loss_above_5_percent_is_a_warning_with_a_better_form_and_its_price(
    loss: float, warned: bool, tmp_path: Path
) -> None:
    model: Any = type("Model", (), {"sites": SITES, "tied": True, "checkpoint": None})
    found = quality_warnings(model, quality(loss), named("int4"))
    assert len(found) == warned
    for sentence in found:
        assert f"loses {100 * loss:.1f} % of perplexity, more than 5 %" in sentence
        assert "--quant int8 is more accurate and takes 0 MB more" in sentence
        assert "--quant auto" in sentence
    assert quality_warnings(model, None, named("int4")) == ()
    better = quality_warnings(model, quality(loss), named("int8"))
    assert len(better) == warned and all("--quant fp32" in s and "auto" not in s for s in better)
    assert not quality_warnings(model, quality(loss), named("fp32")), "nothing is more accurate"
    stored = quality_warnings(model, quality(loss), named("stored"))
    assert len(stored) == warned and all("--quant fp32 computes in float32" in s for s in stored)


def test_the_size_of_a_form() -> None:
    """Codes, and a float32 scale for each block of 32; a tied head is in the file once and is read whole."""
    qkv, down, table = 128 * 64, 64 * 96, 1000 * 64

    def bits(count: int, width: int) -> int:
        return count * width // 8 + count // 32 * 4

    tied = size_of(SITES, True, named("int4"))
    assert tied == bits(qkv + down, 4) + bits(table, 8)
    assert size_of(SITES, False, named("int4")) == tied + bits(table, 4)
    assert size_of(SITES, True, named("fp32")) == 4 * (qkv + down + table)
    mixed = replace(named("int4"), int8_sites=frozenset({"layers.0.down"}))
    assert size_of(SITES, True, mixed) - tied == down // 2
    assert size_of(SITES, True, named("int4-gptq")) == tied + 128 + 64 * 2  # zero points


def test_the_built_in_texts_are_of_several_kinds() -> None:
    texts = sample_texts()
    kinds = {text.kind for text in texts}
    assert kinds == {"prose", "chat", "code", "maths", "lists", "other languages"}
    assert all(text.question for text in texts if text.kind == "chat")
    tokenizer = LibraryTokenizer.from_file(STARTERS / "a/tokenizer.json")
    prompt = PromptTemplate("Question: ", "\nAnswer:")
    pieces = pieces_of(texts, tokenizer, prompt, [7], LONGEST)
    assert max(len(piece.ids) for piece in pieces) <= LONGEST
    assert 1500 < sum(len(piece.ids) for piece in pieces) < 4000
    chat = next(piece for piece in pieces if piece.kind == "chat")
    assert tokenizer.text_of(list(chat.ids)).startswith(b"Question: I have a job interview")
    assert all(piece.ids[0] == 7 for piece in pieces if piece.kind != "chat")
    short = pieces_of(texts, tokenizer, prompt, [7], 32)
    assert max(len(piece.ids) for piece in short) == 32
    assert pieces_of([SampleText("a", "")], tokenizer, prompt, [7]) == []


def test_an_export_measures_and_the_commands_show_it(run: Run, bundle: Path, tmp_path: Path) -> None:
    found = read_quality(open_bundle(bundle).manifest)
    assert found is not None and found.text == NAME
    assert found.whole.tokens == sum(kind.tokens for kind in found.kinds.values()) > 1500
    assert abs(found.whole.loss) < 1e-4  # the bundle is in fp32
    assert (found.whole.agreement or 0.0) > 0.998  # of two logits that are nearly equal rounding chooses
    _, out, _ = run("inspect", bundle)
    assert f"{found.whole.perplexity:.2f}" in out and "same likeliest token" in out
    _, out, _ = run("doctor", bundle)
    assert f"ok    text quality: {found.whole.sentence}" in out
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("How many?\nHow much?\n")
    arguments = "bench", bundle, "--prompts", prompts, "-n", 4, *config(measure="never")
    assert f"text of the target as fp32: {found.whole.sentence}" in run(*arguments)[1].splitlines()
    assert json.loads(run(*arguments, "--json")[1])["quality"] == found.as_json()


def test_the_doctor_warns_of_a_loss(run: Run, copy: Path) -> None:
    rewrite(copy, lambda manifest: manifest["checks"].update(quality=quality(0.2).as_json()))
    check = quality_check(open_bundle(copy))
    assert check.verdict == "warn" and "+20.0 %" in check.message and "--quant fp32" in check.remedy
    rewrite(copy, lambda manifest: manifest["target"].update(quantization="int4-rtn"))
    assert "--quant auto or int8" in quality_check(open_bundle(copy)).remedy
    code, out, _ = run("doctor", copy)
    assert code == 0 and "warn  text quality" in out


@pytest.mark.parametrize("value", [None, {"perplexity": -1}, "\x1b[31m", {"kinds": {"a": {}}}])
def test_a_hostile_quality_refuses_no_bundle(run: Run, copy: Path, value: object) -> None:
    rewrite(copy, lambda manifest: manifest["checks"].update(quality=value))
    check = quality_check(open_bundle(copy))
    assert check.verdict == "ok" and check.message.startswith("not recorded; `omnidraft eval")
    code, out, _ = run("inspect", copy)
    assert code == 0 and "likeliest" not in out
