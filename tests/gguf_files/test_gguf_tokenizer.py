"""Tokenizers from the metadata of GGUF files: the ids of the tokenizers that they were made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

from omnidraft.checkpoints.compile_template import compile_template
from omnidraft.checkpoints.gguf.tokenizer import write_tokenizer
from omnidraft.errors import CheckpointError
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from support.gguf_models import CHAT, MERGES, tokenizer_keys
from support.real_tokenizers import TokenizerOf
from support.tiny_tokenizers import byte_level, sentencepiece

TEXTS = (
    "How many legs do 3 cats have? 12,345.678 and 2024!",
    "  def f(x):\n\treturn x ** 2  # done\r\n\n\n",
    "Müller's naïve café — 東京 😀 I'LL they've",
    " leading, trailing ",
    "don't DON'T 1st 100000 x1y2",
)
REAL = {"gpt2": ("gpt2", "gpt-2"), "llama3": ("llama", "llama-bpe"), "qwen2": ("qwen2", "qwen2"),
        "llama2": ("llama", "default"), "phi3": ("phi3", "default")}  # fmt: skip


def values_of(
    spec: dict[str, Any], pre: str, architecture: str = "llama", changes: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The metadata of a file, as its header is read."""
    keys = {"general.architecture": architecture, **tokenizer_keys(spec, pre), **(changes or {})}
    numbers = ("tokenizer.ggml.scores", "tokenizer.ggml.token_type")
    return {
        key: np.array(each) if key in numbers and each is not None else each
        for key, each in keys.items()
        if each is not None
    }


def made(values: dict[str, Any], place: Path) -> LibraryTokenizer:
    place.mkdir(exist_ok=True)
    write_tokenizer(values, "model.gguf", place)
    return LibraryTokenizer.from_file(place)


@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_keep_their_ids(
    name: str, data: Path, tokenizer_of: TokenizerOf, tmp_path: Path
) -> None:
    spec = json.loads((data / "tokenizers" / name / "tokenizer.json").read_text(encoding="utf-8"))
    architecture, pre = REAL[name]
    tokenizer, original = made(values_of(spec, pre, architecture), tmp_path), tokenizer_of(name)
    assert [tokenizer.encode(text) for text in TEXTS] == [original.encode(text) for text in TEXTS]
    assert tokenizer.kind == original.kind
    known = [place for place, token in enumerate(original.tokens) if token]
    assert [tokenizer.tokens[place] for place in known] == [original.tokens[place] for place in known]
    assert set(original.controls) <= set(tokenizer.controls)


def test_digits_are_split_one_by_one(tmp_path: Path) -> None:
    """The rule of SmolLM, which transformers does not know: a merge over digits is not used."""
    spec = byte_level([*MERGES, (b"1", b"2")], controls=["<s>", "</s>"])
    plain = made(values_of(spec, "gpt-2"), tmp_path / "gpt2")
    digits = made(values_of(spec, "smollm"), tmp_path / "smollm")
    assert len(plain.encode("12")) == 1 and len(digits.encode("12")) == 2


def test_whole_words_are_tokens_without_merges(tmp_path: Path) -> None:
    """Llama 3 has tokens that its merges do not reach."""
    spec = byte_level(MERGES, controls=["<s>", "</s>"])
    spec["model"]["vocab"]["cats"] = 400
    assert len(made(values_of(spec, "llama-bpe"), tmp_path / "llama3").encode("cats")) == 1
    assert len(made(values_of(spec, "gpt-2"), tmp_path / "gpt2").encode("cats")) == 4


def test_bos_where_the_file_or_its_rule_says_so(tmp_path: Path) -> None:
    spec, key = byte_level(MERGES, controls=["<s>", "</s>"]), "tokenizer.ggml.add_bos_token"
    for number, (pre, stated, adds) in enumerate(
        [
            ("gpt-2", None, None),
            ("gpt-2", True, "<s>"),
            ("llama-bpe", None, "<s>"),
            ("llama-bpe", False, None),
        ]
    ):
        tokenizer = made(values_of(spec, pre, changes={key: stated}), tmp_path / str(number))
        assert tokenizer.adds_bos == adds
    pieces = sentencepiece([("▁", "t"), ("h", "e")])
    assert made(values_of(pieces, "default"), tmp_path / "pieces").adds_bos == "<s>"


def test_the_space_in_front_of_a_text(tmp_path: Path) -> None:
    pieces = sentencepiece([("▁", "t"), ("h", "e")])
    key = "tokenizer.ggml.add_space_prefix"
    with_space = made(values_of(pieces, "default"), tmp_path / "with")
    without = made(values_of(pieces, "default", changes={key: False}), tmp_path / "without")
    texts = [tokenizer.tokens[tokenizer.encode("the")[0]] for tokenizer in (with_space, without)]
    assert texts == [b" t", b"t"]


def test_ends_and_template(tmp_path: Path) -> None:
    """The ids that the file names come first, then control tokens that end an answer by their names."""
    spec = byte_level(MERGES, controls=["<s>", "</s>", "<|im_end|>", "<end>"], added=["<|end|>x"])
    place = spec["added_tokens"]
    tokenizer = made(
        values_of(spec, "gpt-2", changes={"tokenizer.ggml.eot_token_id": place[3]["id"]}), tmp_path
    )
    ends = json.loads((tmp_path / "generation_config.json").read_text())["eos_token_id"]
    assert ends == [place[1]["id"], place[3]["id"], place[2]["id"]]
    template = compile_template(tmp_path, tokenizer)
    assert template.jinja is not None and template.jinja.source == CHAT
    assert template.prompt.parts(1)[0] == "<s>user: "


def test_added_tokens_that_the_file_does_not_have_are_left_out(tmp_path: Path) -> None:
    """transformers' class for GPT-2 wants <|endoftext|>; an id behind the embedding is refused later."""
    spec = byte_level(MERGES, controls=["<s>", "</s>"])
    tokens = len(tokenizer_keys(spec, "gpt-2")["tokenizer.ggml.tokens"])
    assert len(made(values_of(spec, "gpt-2"), tmp_path)) == tokens


KEY = "tokenizer.ggml"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({f"{KEY}.model": None}, r"model\.gguf has no tokenizer; give a file that holds one"),
    "no tokens": ({f"{KEY}.tokens": []}, r"has no tokenizer"),
    "another kind": (
        {f"{KEY}.model": "bert"},
        r"has a tokenizer of the kind 'bert', which is not supported; give",
    ),
    "no rule": (
        {f"{KEY}.pre": None},
        r"splits text by the rule None \(tokenizer\.ggml\.pre\), which is not known",
    ),
    "another rule": (
        {f"{KEY}.pre": "magic"},
        r"by the rule 'magic' .* not known; give the Hugging Face checkpoint",
    ),
    "no merges": ({f"{KEY}.merges": None}, r"has a vocabulary without merges; download it again"),
    "merges of one": ({f"{KEY}.merges": ["ab"]}, r"has merges that are not two tokens"),
    "merges of numbers": ({f"{KEY}.merges": [1, 2]}, r"has merges that are not two tokens"),
    "merges of others": ({f"{KEY}.merges": ["never there"]}, r"has a tokenizer that cannot be made \("),
    "few types": ({f"{KEY}.token_type": [1, 1]}, r"tokens and 2 values of token_type"),
    "an end": ({f"{KEY}.eos_token_id": 1 << 20}, r"has eos_token_id 1048576 and \d+ tokens"),
    "a wrong end": ({f"{KEY}.eos_token_id": "x"}, r"has eos_token_id 'x' and \d+ tokens"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_one_sentence(wrong: str, tmp_path: Path) -> None:
    changes, sentence = WRONG[wrong]
    spec = byte_level(MERGES, controls=["<s>", "</s>"])
    with pytest.raises(CheckpointError, match=sentence) as caught:
        write_tokenizer(values_of(spec, "gpt-2", changes=changes), "model.gguf", tmp_path)
    assert "\n" not in str(caught.value)


def test_tokens_that_would_take_hours_to_split_are_refused(tmp_path: Path) -> None:
    spec = sentencepiece([("▁", "t")])
    spec["model"]["vocab"]["x" * 100_000] = 300
    with pytest.raises(CheckpointError, match="has tokens that are too long"):
        write_tokenizer(values_of(spec, "default"), "model.gguf", tmp_path)
