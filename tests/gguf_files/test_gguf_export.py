"""GGUF files become bundles: the text is the target's own, and what is rounded again is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("optimum")
pytest.importorskip("gguf")

from omnidraft.commands.terminal import export_packages as packages  # noqa: E402
from omnidraft.export.bundle import export_bundle  # noqa: E402
from omnidraft.export.options import Options  # noqa: E402
from omnidraft.export.quantize.quantization import AS_STORED, INT8  # noqa: E402
from omnidraft.runtime.bundle.bundle import open_bundle  # noqa: E402
from omnidraft.runtime.session.api import load, load_bundle  # noqa: E402
from omnidraft.runtime.session.text_session import TextSession  # noqa: E402
from support.command_line import Run, config, refused  # noqa: E402
from support.gguf_models import CASES, write_model  # noqa: E402
from support.places import STARTERS  # noqa: E402

DRAFTER = str(STARTERS / "drafter")
PROMPT = "in the tan hen there"
MIXED = {"attn_v": "Q6_K", "ffn_down": "Q6_K", "token_embd": "Q8_0"}


def q4_k_m(tensor: str) -> str:
    """The types of a Q4_K_M file."""
    return next((kind for part, kind in MIXED.items() if part in tensor), "Q4_K")


def q4_1(tensor: str) -> str:
    return "Q8_0" if "token_embd" in tensor else "Q4_1"


KINDS: dict[str, Any] = {"llama": q4_1, "qwen2": lambda _: "Q8_0", "phi3": q4_k_m}
FORMS = {"llama": "gguf-q4_1-q8_0", "qwen2": "gguf-q8_0", "phi3": "gguf-q4_k-q6_k-q8_0"}


def next_token(model: Any, ids: Sequence[int]) -> int:
    """torch's likeliest token after some ids."""
    with torch.no_grad():
        return int(model(torch.tensor([list(ids)])).logits[0, -1].argmax())


@pytest.mark.parametrize("case", KINDS)
def test_a_file_becomes_a_bundle_whose_text_is_the_targets(case: str, tmp_path: Path) -> None:
    """Plain and drafted texts are equal, and the graph agrees with torch on the file's values."""
    file = tmp_path / "model.gguf"
    model = write_model(file, CASES[case], KINDS[case])
    report = export_bundle(str(file), DRAFTER, tmp_path / "out", Options(AS_STORED, INT8, max_length=64))
    form = FORMS[case]
    assert open_bundle(tmp_path / "out").target.quantization == form
    assert report.parity["target"]["fp32"].max_difference < 1e-3
    assert report.parity["target"][form].greedy_agreement > 0.9
    assert not any("rounded" in each for each in report.warnings)
    session = TextSession(load_bundle(tmp_path / "out", measure="never"), bitwise=True)
    plain, *drafted = (
        session.generate(PROMPT, mode=mode, max_new_tokens=24, num_draft_tokens=3).finish()
        for mode in ("plain", "trie", "direct", "lookup")
    )
    assert len(plain.token_ids) > 4, "a text of nothing"
    assert [each.token_ids for each in drafted] == [plain.token_ids] * 3
    assert plain.token_ids[0] == next_token(model, plain.prompt_ids)


def test_a_new_user_checks_exports_asks_and_measures(run: Run, tmp_path: Path) -> None:
    """The commands of docs/export.md, with no option that is not needed."""
    case, file, out = "phi3", tmp_path / "model.gguf", tmp_path / "bundle"
    write_model(file, CASES[case], KINDS[case])
    code, said, err = run("export", file, "--drafter", DRAFTER, "-o", out)
    assert code == 0, err
    assert f"text of the target as {FORMS[case]}: perplexity" in said and "warning: the target" not in said
    code, said, err = run("inspect", out)
    assert code == 0 and FORMS[case] in said, err
    generate = ("generate", out, PROMPT, "-n", 12, *config(bitwise=True))
    code, text, err = run(*generate)
    assert code == 0 and text.strip("\n"), err  # a random model may say form feeds
    assert run(*generate, "--mode", "plain")[1] == text
    (tmp_path / "mine.txt").write_text("in the tan hen there an inn " * 9)
    measured = ("eval", out, "--text", tmp_path / "mine.txt", "--source", file, "--json")
    code, said, err = run(*measured)
    assert code == 0 and err == "", err
    found = json.loads(said)
    assert found["form"] == FORMS[case] and found["perplexity"] == pytest.approx(
        found["source_perplexity"], 0.02
    )


def test_both_models_may_be_files(tmp_path: Path) -> None:
    """The drafter keeps its codes, too; without --quant the command line takes both as they are."""
    write_model(tmp_path / "target.gguf", CASES["qwen2"], q4_1)
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    write_model(drafts / "drafter.gguf", CASES["llama"], lambda _: "Q8_0")
    report = export_bundle(
        str(tmp_path / "target.gguf"),
        str(drafts),
        tmp_path / "out",
        Options(AS_STORED, AS_STORED, max_length=64),
    )
    assert report.parity["drafter"]["gguf-q8_0"].positions > 0
    assert load(tmp_path / "out", measure="never").generate(PROMPT, max_new_tokens=5).finish().text


def test_the_command_line_says_what_is_rounded_again(run: Run, tmp_path: Path) -> None:
    write_model(tmp_path / "model.gguf", CASES["llama"], q4_1)
    out = tmp_path / "out"
    arguments = "export", tmp_path / "model.gguf", "-d", "none", "-o", out, "--max-length", 64
    code, said, err = run(*arguments)
    assert code == 0, err
    assert "target as gguf-q4_1-q8_0 beside torch" in said and "rounded" not in said
    code, said, err = run(*arguments, "--overwrite", "--quant", "int4")
    assert code == 0, err
    assert (
        "warning: the target was rounded a second time, to int4: its file has Q4_1, Q8_0, which are taken "
        "as they are without --quant"
    ) in " ".join(said.split())
    assert open_bundle(out).target.quantization == "int4"


def test_floats_stay_floats_and_a_smaller_form_is_found(run: Run, tmp_path: Path) -> None:
    write_model(tmp_path / "model.gguf", CASES["llama"], lambda _: "F16")
    file = str(tmp_path / "model.gguf")
    report = export_bundle(file, None, tmp_path / "out", Options(AS_STORED, max_length=64))
    assert report.parity["target"]["gguf-f16"].max_difference < 1e-3
    sentence = (
        "the target is not quantised, as in its file (F16); --quant int8 or int4 makes it smaller and faster"
    )
    assert sentence in report.warnings
    code, said, err = run("export", file, "-d", "none", "-o", tmp_path / "auto")
    assert code == 0 and "rounded" not in said, err  # floats are rounded once
    assert "perplexity of the forms that were tried: int4 " in said
    assert open_bundle(tmp_path / "auto").target.quantization.startswith("int")


def test_refusals(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence each, before anything is written."""
    write_model(tmp_path / "model.gguf", CASES["llama"], q4_1)
    file, out = tmp_path / "model.gguf", tmp_path / "out"
    export = ("export", file, "-d", DRAFTER, "-o", out)
    refused(run(*export, "-d", file, "--train-step"), "keeps the codes of its file", "--drafter-quant int8")
    refused(
        run("export", tmp_path / "none.gguf", "-d", DRAFTER, "-o", out), "there is no file", "check the path"
    )
    (tmp_path / "broken.gguf").write_bytes(file.read_bytes()[:5000])
    refused(run("export", tmp_path / "broken.gguf", "-d", DRAFTER, "-o", out), "not a sound GGUF file")
    monkeypatch.setattr(packages, "find_spec", lambda name: None if name == "gguf" else object())
    refused(run(*export), "needs gguf, which this Python", "pip install")
    assert not out.exists()
