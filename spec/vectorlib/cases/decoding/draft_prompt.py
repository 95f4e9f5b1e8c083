"""Vectors of `draft_prompt`: the drafter's first context, from the target ids of a prompt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vectorlib.compiled.file import Compiled
from vectorlib.compiled.file import write as file_of
from vectorlib.reference.tokenizer import SPACE, Tokenizer, byte_level, sentencepiece
from vectorlib.writer import VectorWriter, vector

# name, why, the prompt in parts (text, bytes, or a control token's name), the text that they show
First = tuple[str, str, list[str | bytes], str]
FIRST: list[First] = [
    ("plain", "text is encoded as a prompt: with the drafter's dummy prefix", ["snow flake"], "snow flake"),
    ("leading_space", "a space at the beginning stays beside a dummy prefix", [" snow"], " snow"),
    ("template", "the target's control tokens have no text and no draft ids, also where pairs has them",
     ["{open}", "snow", "{close}"], "snow"),
    ("joined", "text on both sides of a control token is encoded as one", ["fla", "{open}", "ke"], "flake"),
    ("only_control", "no text gives no draft ids, and no dummy prefix", ["{open}", "{close}"], ""),
    ("across_tokens", "the bytes of all tokens are decoded together", [b"\xc3", b"\xa9"], "\u00e9"),
    ("half_character", "a character that is cut is one U+FFFD", ["snow", b"\xe3", b"\x81"], "snow\ufffd"),
    ("surrogate", "bytes of a surrogate are three U+FFFD", [b"\xed", b"\xa0", b"\x80"], "\ufffd\ufffd\ufffd"),
    ("control_string", "text that looks like the drafter's control token is text", ["</s>"], "</s>"),
]  # fmt: skip

# name, why, mode of the generation before, its text, what is read after it; None: an other text
Later = tuple[str, str, str, list[str | bytes], list[str | bytes] | None]
LATER: list[Later] = [
    ("goes_on", "the new part is a fragment: no dummy prefix", "trie", ["snow"], ["flake"]),
    ("goes_on_match", "the same in every mode that asks the drafter", "match", ["snow"], ["flake"]),
    ("goes_on_template", "control tokens of the new part have no draft ids", "trie",
     ["{open}", "snow", "{close}"], ["{close}", "{open}", " fla", "{close}"]),
    ("goes_on_joined", "text of the new part is spelled as one, apart from the text before", "trie",
     ["fla"], ["f", "{open}", "la"]),
    ("goes_on_control", "a new part without text adds nothing", "trie", ["snow"], ["{close}"]),
    ("goes_on_nothing", "the text before again, with nothing new", "trie", ["snow"], []),
    ("goes_on_stray", "bytes that are not text are spelled as bytes", "trie", ["f"], [b"\xc3"]),
    ("after_plain", "an answer without the drafter: all is encoded", "plain", ["snow"], ["flake"]),
    ("after_lookup", "the same after prompt lookup", "lookup", ["snow"], ["flake"]),
    ("other_text", "the prompt does not begin with the text before: all is encoded", "trie", ["snow"], None),
]  # fmt: skip
NAMES = {"byte_level": ("<|im_start|>", "<|im_end|>"), "sentencepiece": ("<s>", "</s>")}
NO_BYTES = "no_bytes.tokenizer"
DRAFTED = 5  # a draft id that no prompt gives here: a context is kept as it is, and not computed again


def write(writer: VectorWriter) -> None:
    for target, drafter in ((byte_level(), sentencepiece()), (sentencepiece(), byte_level())):
        vectors = [_first(target, drafter, *case) for case in FIRST]
        vectors += [_later(target, drafter, *case) for case in LATER]
        vectors += _edges(target, drafter)
        vectors += _without_drafter(target, drafter)
        writer.vectors("draft_prompt", f"{target.kind}_target", vectors)
    _unwritten(writer, byte_level())


def _without_drafter(target: Tokenizer, drafter: Tokenizer) -> list[dict[str, Any]]:
    """A generation that does not ask the drafter has no context, whatever was before."""
    tokens = _ids(target, ["snow"])
    before = {"mode": "trie", "tokens": tokens, "context": [DRAFTED]}
    return [
        _vector(target, drafter, f"now_{mode}_{name}", f"mode {mode} reads no draft ids", tokens, earlier, [],
                mode)
        for mode in ("plain", "lookup")
        for name, earlier in (("first", None), ("later", before))
    ]  # fmt: skip


def _unwritten(writer: VectorWriter, target: Tokenizer) -> None:
    """A drafter without byte tokens, and text that it cannot write."""
    whole = sentencepiece()
    pieces = [piece for piece in whole.pieces if not piece.startswith("<0x")]
    spec = replace(whole, pieces=pieces).as_json()
    spec["model"]["byte_fallback"] = False
    writer.table(f"draft_prompt/{NO_BYTES}.json", spec)
    compiled = Compiled(spec, 1).on_strings(2, SPACE).on_strings(3, " ", SPACE)
    writer.file(f"draft_prompt/{NO_BYTES}.bin", file_of(compiled))
    known = _ids(target, ["snow"])
    before = {"mode": "trie", "tokens": known, "context": [DRAFTED]}
    context = [DRAFTED, pieces.index(SPACE + "f"), pieces.index("<unk>")]
    why = "the drafter has no spelling of the new part: it is encoded as a text, with unknown characters"
    case = vector("no_spelling", why, {
        "target": f"{target.kind}.tokenizer.json", "drafter": f"../draft_prompt/{NO_BYTES}.json",
        "mode": "trie", "prompt": [*known, *_ids(target, ["f\u00f1"])], "before": before,
    }, {"context": context})  # fmt: skip
    writer.vectors("draft_prompt", "unwritten", [case])


def _first(
    target: Tokenizer, drafter: Tokenizer, name: str, why: str, parts: Sequence[str | bytes], text: str
) -> dict[str, Any]:
    return _vector(target, drafter, name, why, _ids(target, parts), None, drafter.encode(text))


def _later(
    target: Tokenizer,
    drafter: Tokenizer,
    name: str,
    why: str,
    mode: str,
    earlier: Sequence[str | bytes],
    new: Sequence[str | bytes] | None,
) -> dict[str, Any]:
    tokens = _ids(target, earlier)
    before = {"mode": mode, "tokens": tokens, "context": [DRAFTED]}
    prompt = _ids(target, ["flake"] if new is None else [*earlier, *new])
    if new is None or mode in ("plain", "lookup"):
        context = drafter.encode(_shown(target, prompt).decode())
    else:
        context = [DRAFTED, *drafter.spell(_shown(target, prompt[len(tokens) :]))]
    return _vector(target, drafter, name, why, prompt, before, context)


def _edges(target: Tokenizer, drafter: Tokenizer) -> list[dict[str, Any]]:
    tokens, whole = _ids(target, ["snow"]), drafter.encode("snow")
    empty = {"mode": "trie", "tokens": tokens, "context": []}
    longer = {"mode": "trie", "tokens": [*tokens, *tokens], "context": [DRAFTED]}
    return [
        _vector(target, drafter, "no_context", "the context before is empty: all is encoded", tokens, empty,
                whole),
        _vector(target, drafter, "shorter", "the text before is longer: all is encoded", tokens,
                longer, whole),
    ]  # fmt: skip


def _vector(
    target: Tokenizer,
    drafter: Tokenizer,
    name: str,
    why: str,
    prompt: list[int],
    before: dict[str, Any] | None,
    context: list[int],
    mode: str = "trie",
) -> dict[str, Any]:
    given = {
        "target": f"{target.kind}.tokenizer.json", "drafter": f"{drafter.kind}.tokenizer.json",
        "mode": mode, "prompt": prompt, "before": before,
    }  # fmt: skip
    return vector(f"{target.kind}_{name}", why, given, {"context": context})


def _ids(target: Tokenizer, parts: Sequence[str | bytes]) -> list[int]:
    """Target ids of a text in parts; `{open}` and `{close}` are control tokens."""
    controls = dict(zip(("{open}", "{close}"), NAMES[target.kind], strict=True))
    ids: list[int] = []
    for part in parts:
        if isinstance(part, str) and part in controls:
            ids.append(next(c.id for c in target.controls if c.content == controls[part]))
        else:
            ids += target.spell(part.encode() if isinstance(part, str) else part)
    return ids


def _shown(target: Tokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(target.bytes_of(i) or b"" for i in ids)
