"""The starter models: their sizes and tokenizers, and that drafting does not change their greedy text."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from omnidraft.errors import BundleError
from omnidraft.runtime.session.api import load
from support.places import STARTERS

NAMES = ("drafter", "a", "b")
UNSEEN = 50
NEW_TOKENS = 48


@pytest.fixture
def starter_bundles(bundle: Path, bundle_b: Path) -> dict[str, Path]:
    return {"a": bundle, "b": bundle_b}


@pytest.mark.usefixtures("export_packages")
@pytest.mark.parametrize("name", NAMES)
def test_the_tokenizer_loads_with_transformers_and_agrees_with_ours(name: str) -> None:
    from transformers import AutoTokenizer

    from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(STARTERS / name), LibraryTokenizer.from_file(STARTERS / name)
    for text in ("Mia has 1234 pencils.", "def f(x):\n    return x", "naïve café 猫 🙂", "  two  spaces\n\n"):
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
        assert theirs.decode(ours.encode(text), clean_up_tokenization_spaces=False) == text


@pytest.mark.usefixtures("export_packages")
@pytest.mark.parametrize(("name", "most"), [("drafter", 1_500_000), ("a", 12_000_000), ("b", 12_000_000)])
def test_the_model_loads_with_transformers_and_is_small(name: str, most: int) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(STARTERS / name)
    assert sum(p.numel() for p in model.parameters()) <= most


def test_the_vocabularies_differ() -> None:
    from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

    drafter, a, b = (LibraryTokenizer.from_file(STARTERS / name) for name in NAMES)
    assert len({len(drafter), len(a), len(b)}) == 3
    digits = [[t.text_of([i]) for i in t.encode("1234")] for t in (a, b)]
    assert digits[0] == [b"1", b"2", b"3", b"4"]
    assert max(len(d) for d in digits[1]) == 3


def test_together_they_are_under_60_megabytes() -> None:
    assert sum(f.stat().st_size for f in STARTERS.rglob("*") if f.is_file()) < 60e6


@pytest.mark.parametrize("name", ["a", "b"])
def test_greedy_speculation_says_what_the_target_says(
    name: str, starter_bundles: dict[str, Path], data: Path
) -> None:
    """50 unseen GSM8K questions: the ids of speculative decoding are those of plain decoding."""
    with gzip.open(data / "tasks/gsm8k/test.jsonl.gz", "rt", encoding="utf-8") as file:
        questions = [json.loads(line)["question"] for line, _ in zip(file, range(UNSEEN), strict=False)]
    assert len(questions) == UNSEEN
    session = load(starter_bundles[name])
    rounds = emitted = 0
    for question in questions:
        plain = session.generate(question, mode="plain", max_new_tokens=NEW_TOKENS).finish()
        fast = session.generate(question, num_draft_tokens=4, max_new_tokens=NEW_TOKENS).finish()
        assert fast.token_ids == plain.token_ids, question
        rounds, emitted = rounds + fast.statistics.rounds, emitted + fast.statistics.emitted
    assert len(session.cache) > 0
    assert emitted / rounds > 1.3, "the drafter saves almost nothing"


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 48])
def test_every_draft_length_says_what_the_target_says(
    name: str, count: int, starter_bundles: dict[str, Path]
) -> None:
    """With an empty, a full and a wrong cache."""
    session = load(starter_bundles[name])
    prompt = "Tom buys 3 books for $7 each and 2 pens for $1.50 each. How much does he pay?"
    plain = session.generate(prompt, mode="plain", max_new_tokens=NEW_TOKENS).finish().token_ids
    for fill in ("nothing", "everything", "what never comes"):
        session.reset_cache()
        if fill == "everything":
            session.cache.prefill()
        elif fill == "what never comes":
            others = [int(t) for t in session.vocab_map.leaves if int(t) not in plain]
            assert sum(session.cache.insert(t) for t in others) > 1000
        fast = session.generate(prompt, num_draft_tokens=count, max_new_tokens=NEW_TOKENS).finish()
        assert fast.token_ids == plain, fill


def test_external_data_cut_short_is_refused(starter_bundles: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(starter_bundles["b"], tmp_path / "bundle"))
    data = copy / "target/cpu/model.onnx.data"
    size = data.stat().st_size
    assert size > 20e6
    load(copy)
    with data.open("r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(BundleError, match=f"model.onnx.data has {size - 1} bytes instead of {size}"):
        load(copy)
