"""`omnidraft eval`: perplexity of a bundle's target by kind of text, alone and beside its source."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from omnidraft.checkpoints.control_tokens import read_tokenizer
from omnidraft.commands import evaluate
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.sample_texts import SampleText
from omnidraft.text_quality import read_quality
from support.command_line import Run
from support.places import STARTERS
from support.tiny_tokenizers import byte_level

TEXT = "How many legs do 3 cats have? Each cat has 4 legs, so 3 cats have 3 * 4 = 12 legs. " * 3


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "mine.txt"
    file.write_text(TEXT, encoding="utf-8")
    return file


def test_the_built_in_texts_give_the_perplexity_of_the_export(run: Run, bundle: Path) -> None:
    exported = read_quality(open_bundle(bundle).manifest)
    assert exported is not None
    code, out, _ = run("eval", bundle, "--json")
    found = json.loads(out)
    assert code == 0 and found["form"] == "fp32" and found["text"] == exported.text
    assert found["perplexity"] == pytest.approx(exported.whole.perplexity, rel=1e-3)
    assert set(found["kinds"]) == set(exported.kinds)
    assert found["source_perplexity"] is None and found["kl"] is None


def test_a_users_text_is_a_kind_by_its_file(run: Run, bundle: Path, text: Path, tmp_path: Path) -> None:
    other = tmp_path / "below" / "mine.txt"
    other.parent.mkdir()
    other.write_text("one two three four five")
    _, out, _ = run("eval", bundle, "--text", text, "--json")
    alone = json.loads(out)
    assert list(alone["kinds"]) == ["mine.txt"] and alone["text"] == "given"
    assert alone["perplexity"] == alone["kinds"]["mine.txt"]["perplexity"]
    _, out, _ = run("eval", bundle, "--text", text, "--text", other)
    lines = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert len(lines) == 3 and lines[-1][0].strip() == "all"
    assert int(lines[0][1]) == alone["tokens"] and f"{alone['perplexity']:.2f}" in lines[0][2]
    assert int(lines[2][1]) == int(lines[0][1]) + int(lines[1][1])


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have names in Unicode alone")
def test_a_byte_order_mark_is_no_text_and_a_name_need_not_be_utf_8(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"a\xff.txt")
    file.write_text(TEXT, encoding="utf-8-sig")
    assert evaluate._read([file]) == [SampleText("a?.txt", TEXT)]


@pytest.mark.usefixtures("export_packages")
def test_beside_its_source(run: Run, bundle: Path, text: Path) -> None:
    source = STARTERS / open_bundle(bundle).target.source
    code, out, err = run("eval", bundle, "--text", text, "--source", source, "--json")
    found = json.loads(out)
    assert code == 0 and err == ""
    assert found["source_perplexity"] == pytest.approx(found["perplexity"], rel=1e-3)
    assert found["agreement"] > 0.95 and found["kl"] < 1e-6


@pytest.mark.usefixtures("export_packages")
def test_beside_a_source_with_control_tokens_that_only_roles_name(
    run: Run, text: Path, tmp_path: Path
) -> None:
    """As of Qwen3: the end is no special token of its tokenizer, and yet one of the bundle's target."""
    transformers = pytest.importorskip("transformers")
    source, out = tmp_path / "source", tmp_path / "bundle"
    tokenizer = byte_level(added=["<end>"])
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = transformers.LlamaConfig(**sizes, vocab_size=257, max_position_embeddings=128, eos_token_id=256)
    transformers.LlamaForCausalLM(model).save_pretrained(source)
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert (
        read_tokenizer(source).fingerprint
        != LibraryTokenizer.from_file(source / "tokenizer.json").fingerprint
    )
    assert run("export", source, "-d", "none", "-o", out, "--quant", "fp32")[0] == 0
    code, _, err = run("eval", out, "--text", text, "--source", source, "--json")
    assert code == 0 and err == ""


@pytest.mark.usefixtures("export_packages")
def test_refusals(run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(name for name in ("a", "b") if name != open_bundle(bundle).target.source)

    def refused(*arguments: object) -> str:
        code, out, err = run("eval", bundle, *arguments)
        assert code == 1 and out == "" and len(err.splitlines()) == 1, err
        return err

    assert "another vocabulary than the bundle's target; give" in refused("--source", STARTERS / other)
    assert "there is no directory" in refused("--source", tmp_path / "none")
    assert "cannot be read (" in refused("--text", tmp_path / "none")
    for data, sentence in (
        (b"a\xff", "byte 1 of"),
        (b"", "fewer than two tokens"),
        (b"x" * 11, "than 10 bytes"),
    ):
        monkeypatch.setattr(evaluate, "MOST_BYTES", 10)
        (tmp_path / "text").write_bytes(data)
        assert sentence in refused("--text", tmp_path / "text")
    many = [word for _ in range(65) for word in ("--text", tmp_path / "text")]
    assert "65 texts are more than 64; give fewer files" in refused(*many)
