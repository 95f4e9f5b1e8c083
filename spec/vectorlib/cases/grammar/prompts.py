"""Vectors of `grammar/prompt`: conversations with tools, and forms of tools that cannot be."""

from collections.abc import Iterator
from typing import Any

from vectorlib.cases.decoding.template import CHATML, PLAIN, SLOT
from vectorlib.reference.chat.calls import Form, answered, generic
from vectorlib.reference.tokenizer import byte_level
from vectorlib.writer import VectorWriter, vector

QWEN = generic(SLOT, CHATML[2], CHATML[3])
QUOTED: Form = {**QWEN, "results": {**QWEN["results"], "is_quoted": True}, "system": None}
LAST: Form = {
    "before": "<|im_start|>snow[", "after": "]<|im_end|>", "system": None, "later": "<|im_end|>la[",
    "calls": {"open": "[F] [", "between": ", ", "close": "]", "arguments": "arguments", "id_length": 3},
    "results": {"before": "<|im_end|>{", "between": "}{", "after": "}", "is_quoted": False, "named": ", "},
}  # fmt: skip
CALLED = '[F] [{"name": "f", "arguments": {}, "id": "a1Z"}, {"name": "f", "arguments": {}, "id": "000"}]'
Turn = tuple[str, list[str], str]  # message, results, the text of the answer
# name, why, form of tools (null: the generic one), system prompt, earlier turns, message or results
CASES: list[tuple[str, str, Form | None, str | None, list[Turn], str | list[str]]] = [
    ("generic", "the generic form, in the place of a system prompt", None, None, [], "snow"),
    ("generic_system", "behind a system prompt", None, " fla ke", [("snow", [], "la")], "f"),
    ("generic_results", "results in a turn of the user, and another message", None, None,
     [("snow", [], "f"), ("", ["1 <|im_end|>", "é"], "la")], "ke"),
    ("results", "an answer to results begins as another answer", QWEN, None, [("snow", [], "f")], ["10"]),
    ("quoted", "results as JSON strings", QUOTED, None, [("snow", [], "f")],
     ['a"\\\n\t\r\b\f\x01\x7fé/']),
    ("last_first", "tools that move to the last message, which is the first", LAST, None, [], " snow "),
    ("last", "the last message is a later one", LAST, None, [("snow", [], "la")], " fla "),
    ("last_results", "results are no message, and they name their calls", LAST, None,
     [("snow", [], "la"), ("fla", [], CALLED)], ["1", "2"]),
    ("last_uncalled", "more results than calls", LAST, None, [("fla", [], "la")], ["1", "2"]),
    ("last_after_results", "a message behind an answer to results", LAST, None,
     [("fla", [], CALLED), ("", ["1", "2"], "ke")], "snow"),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    made = [_vector(*case) for case in CASES]
    for name, why, form in _refused():
        made.append(vector(f"field_{name}", why, {"tools": form}, {"fault": "field"}))
    writer.vectors("grammar/prompt", "prompts", made)


def _vector(
    name: str, why: str, form: Form | None, system: str | None, earlier: list[Turn], asked: str | list[str]
) -> dict[str, Any]:
    tokenizer, known = byte_level(), QWEN if form is None else form
    prefix, suffix, between, after = CHATML
    listing, begin = "1 <|im_end|>", " "
    last: Turn = ("", asked, "") if isinstance(asked, list) else (asked, [], "")
    turns = [*earlier, last]
    listed = 0 if known["later"] is None else max(i for i, turn in enumerate(turns) if not turn[1])
    ids: list[int] = []
    for i, (message, results, answer) in enumerate(turns):
        written = begin if i == len(turns) - 1 else ""
        parts = [between if i else prefix, message, (after if i else suffix) + written]
        if results:
            parts = answered(known, results, turns[i - 1][2], written)
        elif i == 0 and system is not None:
            slot = known["system"]
            parts[:1] = [slot["before"], system, slot["between"], listing, slot["after"]]
        elif i == listed:
            parts[:1] = [known["later"] if i else known["before"], listing, known["after"]]
        ids += [*tokenizer.encode_prompt(*parts, goes_on=i > 0), *tokenizer.spell(answer.encode())]
    given = {
        "tokenizer": tokenizer.file, **PLAIN, "prefix": prefix, "suffix": suffix, "between": between,
        "after": after, "begin": begin, "slot": SLOT, "system": system, "listing": listing,
        "tools": None if form is None else {**form, "between": "", "indent": None},
        "turns": [{"message": m, "results": r, "answer": tokenizer.spell(a.encode())} for m, r, a in earlier],
        "message": last[0], "results": last[1],
    }  # fmt: skip
    return vector(name, why, given, {"ids": ids})


def _refused() -> Iterator[tuple[str, str, Form]]:
    """Forms with one value that cannot be."""
    whole: Form = {**QWEN, "between": "\n", "indent": 4}
    for name in whole:
        yield f"missing_{name}", "the field is missing", {k: v for k, v in whole.items() if k != name}
    for name, values in (
        ("before", [None, "a" * 65_537]), ("after", [1]), ("between", [None]), ("indent", [-1, 9, "4"]),
        ("later", [1]), ("system", ["", {"before": "", "after": ""}]), ("calls", [None]), ("results", [[]]),
    ):  # fmt: skip
        for i, value in enumerate(values):
            yield f"{name}_{i}", f"{value!r:.30}", {**whole, name: value}
    for part, name, wrong in (
        ("calls", "open", [None]), ("calls", "between", [1]), ("calls", "close", [None]),
        ("calls", "arguments", ["parameter", None]), ("calls", "id_length", [-1, 65, None]),
        ("results", "before", [None]), ("results", "between", [None]), ("results", "after", [None]),
        ("results", "is_quoted", [0, None]), ("results", "named", [1]),
    ):  # fmt: skip
        for i, value in enumerate(wrong):
            yield f"{part}_{name}_{i}", f"{value!r:.30}", {**whole, part: {**whole[part], name: value}}
