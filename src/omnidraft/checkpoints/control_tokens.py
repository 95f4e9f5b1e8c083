"""The tokenizer of a checkpoint: which of its added tokens are control tokens (spec/01-tokens.md).

`special` tokens are, and so are those to which the files beside tokenizer.json give a role. The form of a
token tells nothing: Gemma 3 has `<table>`, and Qwen2.5 has `<tool_call>`, as tokens of text.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omnidraft.checkpoints.compile_template import compile_strings, template_in, think_tags
from omnidraft.checkpoints.refusals import optional_json
from omnidraft.errors import CheckpointError, PromptError
from omnidraft.runtime.bundle.jinja_template import JinjaTemplate, jinja_is_installed
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer, read_tokenizer_json
from omnidraft.runtime.vocab.tokenizer import ContentFinder

_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")  # of config.json and generation_config.json
_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")
_LISTS = ("additional_special_tokens", "extra_special_tokens")  # of tokenizer_config.json, like the names


def read_tokenizer(path: str | Path) -> LibraryTokenizer:
    """The tokenizer of a checkpoint, with the roles that the other files of its directory give."""
    file = Path(path)
    file = file / "tokenizer.json" if file.is_dir() else file
    spec = read_tokenizer_json(file)
    added = _contents(spec)
    # A token of white space alone is text in every prompt, whatever stops at it.
    roles = {each for each in _roles(file.parent, added) if each.strip()}
    return LibraryTokenizer(spec, str(file), roles)


def write_tokenizer(source: Path, destination: Path, tokenizer: LibraryTokenizer) -> None:
    """Copy a tokenizer.json for a bundle: there the flag `special` alone says what is a control token."""
    spec = read_tokenizer_json(source)
    marked = [token for token in spec.get("added_tokens") or [] if token["content"] in tokenizer.controls]
    if all(token.get("special") for token in marked):
        shutil.copyfile(source, destination)
        return
    for token in marked:
        token["special"] = True
    destination.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")


def _contents(spec: Mapping[str, Any]) -> dict[object, str]:
    """The content of each added token by its id; what is no added token is refused by the tokenizer."""
    added = spec.get("added_tokens")
    tokens = [each for each in added if isinstance(each, dict)] if isinstance(added, list) else []
    found = ((each.get("id"), each.get("content")) for each in tokens)
    return {token: content for token, content in found if type(token) is int and isinstance(content, str)}


def _roles(directory: Path, added: Mapping[object, str]) -> Iterable[str]:
    """The contents of added tokens with a role: in the configuration, in the template, around thoughts."""
    for file in ("config.json", "generation_config.json"):
        config = optional_json(directory / file, str(directory))
        ids = (i for name in _IDS for i in _listed(config.get(name)))
        yield from (added[i] for i in ids if type(i) is int and i in added)
    config = optional_json(directory / "tokenizer_config.json", str(directory))
    contents = set(added.values())
    named = (each for name in (*_NAMES, *_LISTS) for each in _listed(config.get(name)))
    yield from contents.intersection(_content(each) for each in named)
    template = template_in(directory)
    tags = think_tags(template, contents)
    if tags is not None:
        yield from contents.intersection((tags.open, tags.close))
    if template is not None and jinja_is_installed():
        found = ContentFinder(filter(None, contents))
        strings = _around_turns(template, directory)
        yield from (each for text in strings for _, _, each in found.find(text) if _is_marker(each))


def _around_turns(template: JinjaTemplate, directory: Path) -> list[str]:
    """What the template writes around messages; its own system prompt only where no other has a place."""
    with suppress(CheckpointError, PromptError):  # the export of a target refuses this template itself
        prompt, _ = compile_strings(template, directory)
        system = prompt.system
        first = [prompt.prefix] if system is None else [system.before, system.after]
        return [*first, prompt.suffix, prompt.between or "", prompt.after or "", prompt.begin]
    return []


def _is_marker(content: str) -> bool:
    """Letters and signs: a word, a line feed or a colon is text, also as one token that a template writes."""
    words = [letter.isalnum() for letter in content if not letter.isspace()]
    return any(words) and not all(words)


def _listed(value: object) -> list[object]:
    """One value, several values, or the values of names."""
    if isinstance(value, dict) and "content" not in value:
        return list(value.values())
    return list(value) if isinstance(value, list) else [value]


def _content(value: object) -> str:
    """The content of a token, which is written as a string or as an object; empty for anything else."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""
