"""The recipe of the shipped drafter: forms of chats, spelling, and a training that was stopped."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("export_packages")

ROWS = (
    {"messages": [{"role": "user", "content": "Say hello."}], "answer": "Hello there!", "ended": True},
    {"opening": "It was a dark", "answer": " and stormy night.", "ended": False},
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    from recipes.drafter.tokenizer import learn_tokenizer

    (tmp_path / "samples").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "samples" / "00000.jsonl").write_text(lines, "utf-8")
    (tmp_path / "texts.json").write_text(json.dumps({"moby-dick": ["Call me Ishmael. " * 9]}), "utf-8")
    learn_tokenizer(["Call me Ishmael.", "Hello there!"], tmp_path / "tokenizer", size=300)
    return tmp_path


def places(work: Path, checkpoint: str) -> Any:
    from recipes.drafter.train import Places

    return Places(work / "tokenizer", work / "samples", work / "texts.json", work / checkpoint)


@pytest.mark.usefixtures("data")
def test_a_training_that_was_stopped_ends_with_the_same_weights(work: Path) -> None:
    import torch

    from recipes.drafter.train import Plan, Shape, train

    shape = Shape(width=16, inner=32, layers=1, heads=2)

    def plan(steps: int, decay: int) -> Plan:
        return Plan(rows=4, length=4, steps=steps, decay=decay, warmup=2, round_steps=3, bf16=False)

    whole = train(places(work, "whole.pt"), plan(4, 3), shape)
    train(places(work, "parts.pt"), plan(4, 0), shape)
    log = train(places(work, "parts.pt"), plan(4, 3), shape)
    assert log["steps"] == whole["steps"] == 7
    states = [torch.load(work / f"{name}.pt", weights_only=True)["model"] for name in ("whole", "parts")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.usefixtures("data")
def test_a_training_goes_on_from_published_weights(work: Path) -> None:
    import dataclasses

    import torch
    from transformers import PreTrainedTokenizerFast

    from recipes.drafter.publish import write_model
    from recipes.drafter.train import Plan, Shape, new_model, train

    shape, plan = Shape(width=16, inner=32, layers=1, heads=2), Plan(rows=4, length=4, steps=2, bf16=False)
    log = train(places(work, "first.pt"), plan, shape)
    model = new_model(PreTrainedTokenizerFast.from_pretrained(work / "tokenizer"), shape)
    model.load_state_dict(torch.load(work / "first.pt", weights_only=True)["model"])
    write_model(work / "tokenizer", model, log, "")
    begun = dataclasses.replace(places(work, "second.pt"), published=work / "tokenizer")
    assert train(begun, dataclasses.replace(plan, steps=3), shape)["steps"] == 3


def test_tokens_spelled_one_by_one_write_the_same_text(work: Path) -> None:
    from tokenizers import Tokenizer

    from recipes.drafter.corpus import END, spell
    from support.places import STARTERS

    tokenizer = Tokenizer.from_file(str(work / "tokenizer" / "tokenizer.json"))
    text = f"naïve café 猫\n\n  two  spaces{END}\n"
    for name in ("drafter", "a", "b"):
        imitated = Tokenizer.from_file(str(STARTERS / name / "tokenizer.json"))
        ids = spell(tokenizer, text, imitated)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_no_form_of_a_chat_loses_a_message() -> None:
    from recipes.drafter.corpus import chat_text

    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    texts = {chat_text(messages, random.Random(seed), ended=True) for seed in range(60)}
    assert len(texts) == 9
    assert all(text.index("Q") < text.index("A") and text.endswith("A<|im_end|>") for text in texts)


def test_loops_are_no_samples() -> None:
    from recipes.drafter.sample import is_loop

    assert is_loop("the same words " * 40)
    assert not is_loop("Each of these words says something else about the sea, the wind and the old harbour.")
