"""Vectors of `grammar/calls`: calls of tools in outputs, whole and as they stream."""

from typing import Any

from vectorlib.cases.grammar.grammars import GRAMMARS
from vectorlib.reference.chat.calls import BEGUN, Form, calls, marker, parts
from vectorlib.reference.grammar import START
from vectorlib.writer import VectorWriter, vector

LIST: Form = {"open": "<t>[", "between": ", ", "close": "]", "arguments": "arguments", "id_length": 0}
TAGS: Form = {**LIST, "open": "\n<call>\n", "between": "\n</call>\n<call>\n", "close": "\n</call>"}
MISTRAL: Form = {**LIST, "open": "[CALLS] [", "id_length": 9}
WHOLE: Form = {"open": "", "between": None, "close": "", "arguments": "parameters", "id_length": 0}
CALL = '{"name": "f", "arguments": {"x": "}\\"]", "y": [1, {}]}}'
NAMED = CALL[:-1] + ', "id": "%s"}'
ALONE = CALL.replace("arguments", "parameters")
# name, why, form, the texts of an output as they arrive
CASES: list[tuple[str, str, Form, list[str]]] = [
    ("two", "two calls behind a text", LIST, ["Well. <t>[" + CALL, ", " + CALL + "]"]),
    ("letters", "each character alone", LIST, list("é <t <t>[" + CALL + "]")),
    ("cut", "the second call is not whole", LIST, ["<t>[" + CALL + ", " + CALL[:-1]]),
    ("none", "no call: what may begin a marker is held back to the end", LIST, ["a <", "t", "u <t"]),
    ("marker_alone", "a marker without a call", LIST, ["<t>", "[1]"]),
    ("behind", "text behind the calls is no call", LIST, ["<t>[" + CALL + "] and " + CALL]),
    ("tags", "white space at the beginning of `open` belongs to the text", TAGS,
     ["So:\n<cal", "l>\n" + CALL + "\n</call>", "\n<call>\n" + CALL + "\n</call>"]),
    ("ids", "ids behind the arguments", MISTRAL,
     ["[CALLS] [" + NAMED % "abcDEF129" + ", " + NAMED % "000000001" + "]"]),
    ("id_short", "an id of eight characters is none", MISTRAL, ["[CALLS] [" + NAMED % "abcDEF12" + "]"]),
    ("id_sign", "an id has letters and digits", MISTRAL, ["[CALLS] [" + NAMED % "abc-EF129" + "]"]),
    ("id_absent", "a call without its id", MISTRAL, ["[CALLS] [" + CALL + "]"]),
    ("whole", "a call that is the whole answer", WHOLE, ["", '{"na', ALONE[4:], " more"]),
    ("whole_text", "an answer that begins otherwise", WHOLE, ['{"na', "h", ALONE]),
    ("whole_later", "a call is none behind a text", WHOLE, ["So " + ALONE]),
    ("empty", "an output without text", LIST, [""]),
    ("twice", "a name twice ends the calls, at any depth", LIST,
     ["<t>[" + CALL + ", " + CALL.replace("{}", '{"a": 1, "a": 2}') + ", " + CALL + "]"]),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    made = []
    for name, why, form, texts in CASES:
        output = "".join(texts)
        expect: dict[str, Any] = {"marker": marker(form), "parts": parts(texts, form)}
        made.append(
            vector(name, why, {"form": form, "texts": texts}, {**expect, "calls": calls(output, form)})
        )
    for name, why, form in (
        ("fits", "the grammar calls tools in this form", LIST),
        ("other_marker", "with another marker its calls would be free text", {**LIST, "open": "<u>["}),
        ("other_open", "with other text behind the marker", {**LIST, "open": "<t>{["}),
        ("no_open", "a call that is the whole answer would be free text", WHOLE),
    ):
        at = GRAMMARS["tools"].read(START, (form["open"] + BEGUN).encode())
        fits = at is not None and not GRAMMARS["tools"].is_free(at)
        fault = None if fits else "calls"
        made.append(vector(name, why, {"form": form, "file": "tools.grammar"}, {"fault": fault}))
    writer.vectors("grammar/calls", "calls", made)
