"""Vectors of `thought`: thought and answer of an output, while it streams and in a conversation."""

from typing import Any

from vectorlib.reference.chat import thought
from vectorlib.reference.tokenizer import Tokenizer, byte_level, markup
from vectorlib.writer import VectorWriter, vector

TAGS = {"open": "<think>", "close": "</think>", "earlier": "trim"}
LONG = {"open": "[THINK]", "close": "[/THINK]", "earlier": "cut"}
# The control tokens of the tokenizer of `tokenize` stand for tags that are control tokens.
CONTROLS = {"open": "<|im_start|>", "close": "<|im_end|>", "earlier": "trim"}
# name, why, tags, the output begins inside a thought, texts as they arrive
TEXTS: list[tuple[str, str, dict[str, str], bool, list[str]]] = [
    ("whole", "a thought, two line feeds, an answer", TAGS, False, ["<think>\nHm.\n</think>\n\n7"]),
    ("none", "an output without a thought", TAGS, False, ["7 legs", " each"]),
    ("feeds", "line feeds of an output without a thought", TAGS, False, ["\n\n7 legs"]),
    ("empty", "no text at all", TAGS, False, []),
    ("white_alone", "white space waits for a tag to the end", TAGS, False, [" \n", "\t"]),
    ("white_before", "white space before the open tag", TAGS, False, ["\n <think>a</think>b"]),
    ("feed_before", "other white space is not skipped", TAGS, False, ["\u00a0<think>a</think>b"]),
    ("tag_in_pieces", "a tag that arrives in pieces is held back", TAGS, False,
     ["<th", "ink", ">Hm", ".</", "thi", "nk>", "\n", "\n7", " legs"]),
    ("no_tag_in_pieces", "what might have been a tag was none", TAGS, False, ["<th", "e>", " end"]),
    ("close_begun", "what might have been the close tag was none", TAGS, False, ["<think>a</th",
     "e>b</think>c"]),
    ("close_begun_twice", "a close tag right behind its beginning", TAGS, False, ["<think>a</th</",
     "think>b"]),
    ("not_closed", "a thought that is not closed has no answer", TAGS, False, ["<think>Hm", ". So"]),
    ("not_closed_tag", "the beginning of the close tag at the end is thought", TAGS, False,
     ["<think>a</thin"]),
    ("open_begun_alone", "the beginning of the open tag at the end is answer", TAGS, False, ["<thin"]),
    ("later_tag", "an open tag behind other text is text", TAGS, False, ["Say <think>a</think>b"]),
    ("close_alone", "a close tag without an open tag is text", TAGS, False, ["a</think>b"]),
    ("second_thought", "the first close tag ends the thought; later tags are text", TAGS, False,
     ["<think>a</think>b<think>c</think>d"]),
    ("second_open", "an open tag in a thought is text", TAGS, False, ["<think>a<think>b</think>c</think>d"]),
    ("inside", "the prompt ends with the open tag", TAGS, True, ["Hm.\n</thi", "nk>\n\n7"]),
    ("inside_open", "inside a thought the open tag is text", TAGS, True, ["<think>a</think>b"]),
    ("inside_not_closed", "all of it is thought", TAGS, True, ["Hm", "."]),
    ("inside_close_first", "an empty thought", TAGS, True, ["</think>7"]),
    ("cut", "the line feeds behind the thought are kept", LONG, False, ["[THINK]a[/THINK]\n\n7"]),
    ("keep", "the thought is kept", {**TAGS, "earlier": "keep"}, False, ["<think>a</think>\n7"]),
    ("trim_feeds_alone", "only line feeds are removed behind the tag", TAGS, False,
     ["<think>a</think>\n \n7"]),
    ("trim_all", "nothing is left", TAGS, False, ["<think>a</think>\n\n"]),
    ("not_ascii", "places are bytes of UTF-8", TAGS, False, ["<think>né</think>ぁ"]),
]  # fmt: skip
# With `markup`: its tags of thoughts are control tokens, its tags of tools are text.
MARKUP: list[tuple[str, str, dict[str, str], bool, list[str]]] = [
    ("tool_behind", "the call of a tool stays behind the thought", TAGS, False,
     ["<think>", "snow", "</think>", "\n\n", "<tool_call>", "{}", "</tool_call>"]),
    ("tool_inside", "a call inside the thought is thought", {**TAGS, "earlier": "cut"}, True,
     ["<tool_call>", "{}", "</think>", "<td>", " la"]),
    ("html_alone", "tokens of text at the beginning of an answer without a thought", TAGS, False,
     ["<td>", "7", "</td>"]),
    ("silent", "a marker of turns has no text", {**TAGS, "earlier": "cut"}, False,
     ["<think>", "[TURN]", "</think>", "[TURN]", "<s>"]),
]  # fmt: skip
# name, why, tags, inside, the ids as runs of text and control tokens
IDS: list[tuple[str, str, dict[str, str], bool, list[str]]] = [
    ("controls", "tags that are control tokens", CONTROLS, False, ["<|im_start|>", "snow", "<|im_end|>",
     "la"]),
    ("controls_inside", "the open tag is in the prompt", CONTROLS, True, ["snow", "<|im_end|>", "la"]),
    ("controls_not_closed", "nothing is kept", CONTROLS, False, ["<|im_start|>", "snow la"]),
    ("controls_keep", "all is kept", {**CONTROLS, "earlier": "keep"}, False,
     ["<|im_start|>", "snow", "<|im_end|>", "la"]),
    ("no_thought", "all ids are kept", CONTROLS, False, ["snow", "<|im_end|>", "la"]),
    ("no_thought_silent", "also ids without bytes at the beginning", LONG, False, ["<|im_end|>", "la"]),
    ("silent_between", "ids without bytes between thought and answer are left out",
     {"open": "f", "close": "snow", "earlier": "cut"}, False, ["f", "snow", "<|im_end|>", " la"]),
    ("in_a_token", "the close tag ends inside a token, whose other bytes are spelled again",
     {"open": "f", "close": "sn", "earlier": "cut"}, False, ["f", "snow", " la"]),
    ("at_a_token", "the close tag ends with a token", {"open": "f", "close": "snow", "earlier": "cut"}, False,
     ["f", "snow", " la"]),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    texts = []
    for name, why, tags, inside, pieces in TEXTS:
        output = "".join(pieces).encode()
        expect = {
            "parts": thought.parts(pieces, tags, inside),
            "answer": thought.answer_start(output, tags, inside),
            "kept": thought.kept_start(output, tags, inside),
        }
        texts.append(vector(name, why, {**tags, "inside": inside, "texts": pieces}, expect))
    writer.vectors("thought", "texts", texts)
    writer.vectors("thought", "ids", [_ids(byte_level(), *case) for case in IDS])
    writer.vectors("thought", "markup", [_ids(markup(), *case) for case in MARKUP])


def _ids(
    tokenizer: Tokenizer, name: str, why: str, tags: dict[str, str], inside: bool, runs: list[str]
) -> dict[str, Any]:
    """A vector of the ids that a conversation keeps of an answer."""
    controls = {control.content: control.id for control in tokenizer.controls}
    named = controls | {text: i for i, text in tokenizer.added}
    ids = [i for run in runs for i in ([named[run]] if run in named else tokenizer.spell(run.encode()))]
    tagged = {controls[tags[k]]: tags[k].encode() for k in ("open", "close") if tags[k] in controls}
    data = [tagged.get(i) or tokenizer.bytes_of(i) or b"" for i in ids]
    start = thought.kept_start(b"".join(data), tags, inside)
    kept, at = list[int](), 0
    for token, text in zip(ids, data, strict=True):
        if at >= start and (text or start == 0 or kept):
            kept.append(token)
        elif at + len(text) > start:
            kept += tokenizer.spell(text[start - at :])
        at += len(text)
    given = {"tokenizer": tokenizer.file, **tags, "inside": inside, "ids": ids}
    name = f"{tokenizer.name}_{name}" if tokenizer.name else name
    return vector(name, why, given, {"ids": kept})
