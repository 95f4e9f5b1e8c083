"""The value of a JSON text that is still being written."""

import json
import re
from typing import Any

_ESCAPE = r"\\(?:[^u]|u[dD][89abAB]\w\w\\u\w{4}|u(?![dD][89abAB])\w{4})"  # a pair of surrogates is one
_TOKEN = re.compile(rf'"(?:[^"\\]|{_ESCAPE})*("?)|[][{{}},:]|[^][{{}},:"\s]+')
_CLOSING = {"{": "}", "[": "]"}
_WORDS = ("true", "false", "null")


def partial_json(text: str) -> Any:
    """What is certain of the value of a JSON text, of which only the beginning may be there.

    A string is as long as its text so far. A number at the end of the text, half a word, half an escape and a
    property without a value are left out. None where there is no value yet.

    Args:
        text: the beginning of a valid JSON text; a whole number needs white space behind it.

    Raises:
        ValueError: the text is not the beginning of a JSON text.
    """
    ends, before, known = (
        "",
        "",
        "null",
    )  # what closes the text, the last of `{[,:`, the last text with a value
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "{[":
            ends = _CLOSING[first] + ends
        elif first in "}]":
            ends = ends[1:]
        is_name = first == '"' and before in ("{", ",") and ends[:1] == "}"
        before = first if first in "{[,:" else ""
        if first == '"' and not token[1]:
            return json.loads(known if is_name else text[: token.end()] + '"' + ends)
        ends_here = first in '{}[]"' or token[0] in _WORDS or token.end() < len(text)
        if ends_here and not is_name and first not in ",:":
            known = text[: token.end()] + ends
    return json.loads(known)
