"""The tokenizer and the chat template of a GGUF file -> the files of a checkpoint.

transformers makes the tokenizer of the vocabulary and the merges. What its reading leaves out is added here:
rules of splitting that it does not know, merges that whole words need not follow, the prefix space, and bos.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft.errors import CheckpointError, reason
from omnidraft.runtime.vocab.library_tokenizer import MAX_TOKENS

_KEY = "tokenizer.ggml"
_MAX_SPLITS = 1 << 26  # of tokens into pairs, by which the merges of a SentencePiece vocabulary are found
_SPACE = "\u2581"  # of SentencePiece
_CONTROL, _USER_DEFINED = 3, 4  # llama.cpp's types of tokens
# Rules of splitting: digits one by one and then as GPT-2, and as GPT-2.
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_GPT2 = ("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling")
# The rules whose words are tokens as they are where the vocabulary has them, and which begin with bos.
_WHOLE_WORDS = ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "midm-2.0", "lfm2", "tekken")
# Control tokens that end an answer, besides those that the file names; llama.cpp knows them by name, too.
_ENDS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
)


def write_tokenizer(values: Mapping[str, Any], name: str, directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json, generation_config.json and the chat template."""
    _check(values, name)
    special = {role: _token(values, key, name) for role, key in _ROLES.items()}
    spec = _spec(values, name, special["bos_token"])
    (directory / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    config = {role: token for role, token in special.items() if token is not None}
    _write_json(directory / "tokenizer_config.json", config)
    _write_json(directory / "generation_config.json", {"eos_token_id": _ends(values)})
    template = values.get("tokenizer.chat_template")
    if isinstance(template, str) and template:
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")


_ROLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


_KINDS: dict[str, type] = {  # of values that are not checked where they are used
    "model": str,
    "pre": str,
    "tokens": list,
    "merges": list,
    "scores": np.ndarray,
    "token_type": np.ndarray,
    "add_bos_token": int,  # as a bool is
    "add_space_prefix": int,
}


def _check(values: Mapping[str, Any], name: str) -> None:
    """Refuse what is missing, of another type, or would take hours."""
    for key, meant in _KINDS.items():
        if (value := values.get(f"{_KEY}.{key}")) is not None and not isinstance(value, meant):
            raise _broken(name, f"a tokenizer with {key} {value!r:.40}")
    kind, tokens = values.get(f"{_KEY}.model"), values.get(f"{_KEY}.tokens")
    if kind is None or not isinstance(tokens, list) or not tokens:
        raise CheckpointError(
            f"{name} has no tokenizer", "give a file that holds one, or the Hugging Face checkpoint"
        )
    if kind not in ("gpt2", "llama"):
        raise CheckpointError(
            f"{name} has a tokenizer of the kind {kind!r:.40}, which is not supported",
            "give the Hugging Face checkpoint, or a file with byte-level or SentencePiece BPE",
        )
    if len(tokens) > MAX_TOKENS:
        raise CheckpointError(f"{name} has {len(tokens)} tokens, more than {MAX_TOKENS}", "use another model")
    for key in ("scores", "token_type"):
        count = len(values.get(f"{_KEY}.{key}", tokens))
        if count != len(tokens):
            raise _broken(name, f"{len(tokens)} tokens and {count} values of {key}")
    merges = values.get(f"{_KEY}.merges")
    if merges is None and (kind == "gpt2" or f"{_KEY}.scores" not in values):
        raise _broken(name, "a vocabulary without merges")
    if merges is None and sum(len(token) ** 2 for token in tokens) > _MAX_SPLITS:
        raise _broken(name, "tokens that are too long")
    if merges is not None and not all(isinstance(each, str) and each.count(" ") == 1 for each in merges):
        raise _broken(name, "merges that are not two tokens")


def _spec(values: Mapping[str, Any], name: str, bos: str | None) -> dict[str, Any]:
    """The values of tokenizer.json."""
    spec = _made_by_transformers(values, name)
    tokens = values[f"{_KEY}.tokens"]
    # transformers adds tokens that its classes want and the vocabulary does not have.
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["id"] < len(tokens)]
    if values[f"{_KEY}.model"] == "gpt2":
        _set_split(spec, values, name)
    else:
        _set_spaces(spec, prefix=bool(values.get(f"{_KEY}.add_space_prefix", True)))
    spec["post_processor"] = _with_bos(bos, tokens) if bos is not None and _adds_bos(values) else None
    spec |= {"truncation": None, "padding": None}
    return spec


def _made_by_transformers(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_TOKENIZER_MAPPING,
        convert_gguf_tokenizer,
    )

    from omnidraft.checkpoints.checkpoint import quiet

    read: dict[str, Any] = {
        theirs: values[f"tokenizer.{ours}"]
        for ours, theirs in GGUF_TOKENIZER_MAPPING["tokenizer"].items()
        if f"tokenizer.{ours}" in values
    }
    read |= {key: each.tolist() for key, each in read.items() if hasattr(each, "tolist")}
    try:
        with quiet():
            made, _ = convert_gguf_tokenizer(values["general.architecture"], read)
        spec: dict[str, Any] = json.loads(made.to_str())
    except BaseException as error:  # of values of all kinds; a panic of the package is no `Exception`
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _broken(
            name, f"a tokenizer that cannot be made ({type(error).__name__}: {reason(error)})"
        ) from None
    return spec


def _set_split(spec: dict[str, Any], values: Mapping[str, Any], name: str) -> None:
    """Split text as the vocabulary was learned: a rule that transformers set, or one of ours."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    rule = values.get(f"{_KEY}.pre")
    gpt2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    if rule in _DIGITS:
        digits = {"type": "Digits", "individual_digits": True}
        spec["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, gpt2]}
    elif rule in _GPT2:
        spec["pre_tokenizer"] = gpt2
    elif rule not in GGUF_PRE_TOKENIZER_SPLITS:
        known = ", ".join(sorted({*_DIGITS, *_GPT2, *GGUF_PRE_TOKENIZER_SPLITS}))
        raise CheckpointError(
            f"{name} splits text by the rule {rule!r:.40} ({_KEY}.pre), which is not known",
            f"give the Hugging Face checkpoint, or a file with one of {known}",
        )
    spec["model"]["ignore_merges"] = rule in _WHOLE_WORDS


def _set_spaces(spec: dict[str, Any], *, prefix: bool) -> None:
    """Write spaces as a SentencePiece vocabulary has them, behind one more space at the start or not.

    What transformers sets here depends on its version, and one form leaves out the first of two spaces.
    """
    space = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    first = [{"type": "Prepend", "prepend": _SPACE}] if prefix else []
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    spec["normalizer"] = {"type": "Sequence", "normalizers": [*first, space]}
    spec["pre_tokenizer"] = None
    spec["decoder"] = {
        "type": "Sequence",
        "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip],
    }


def _adds_bos(values: Mapping[str, Any]) -> bool:
    """Whether a text begins with bos; where the file does not say so, as llama.cpp does."""
    usual = values[f"{_KEY}.model"] == "llama" or values.get(f"{_KEY}.pre") in _WHOLE_WORDS
    return bool(values.get(f"{_KEY}.add_bos_token", usual))


def _with_bos(bos: str, tokens: list[str]) -> dict[str, Any]:
    text = [{"Sequence": {"id": "A", "type_id": 0}}]
    first = [{"SpecialToken": {"id": bos, "type_id": 0}}]
    return {
        "type": "TemplateProcessing",
        "single": first + text,
        "pair": first + text + [{"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [tokens.index(bos)], "tokens": [bos]}},
    }


def _token(values: Mapping[str, Any], key: str, name: str) -> str | None:
    """The content of a special token; None where the file names none."""
    tokens, place = values[f"{_KEY}.tokens"], values.get(f"{_KEY}.{key}")
    if place is None:
        return None
    if type(place) is not int or not 0 <= place < len(tokens):
        raise _broken(name, f"{key} {place!r:.40} and {len(tokens)} tokens")
    return str(tokens[place])


def _ends(values: Mapping[str, Any]) -> list[int]:
    """The ids that end an answer: those that the file names, then control tokens with known names."""
    tokens, kinds = values[f"{_KEY}.tokens"], values.get(f"{_KEY}.token_type", ())
    named = [values.get(f"{_KEY}.{role}_token_id") for role in ("eos", "eot", "eom")]
    ends = [place for place in named if type(place) is int and 0 <= place < len(tokens)]
    known = set(_ENDS)
    ends += [
        place
        for place, (token, kind) in enumerate(zip(tokens, kinds, strict=False))
        if token in known and kind in (_CONTROL, _USER_DEFINED)
    ]
    return list(dict.fromkeys(ends))


def _broken(name: str, what: str) -> CheckpointError:
    return CheckpointError(f"{name} has {what}", "download it again, or give the Hugging Face checkpoint")


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
