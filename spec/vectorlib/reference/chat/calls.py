"""Calls of tools in an output, and the text around tools: 17-grammar.md and 03-bundle.md, "Tools"."""

import json
import re
from typing import Any

BEGUN = '{"name": "'
TOLD = "You can call these tools. Each line describes one, with the JSON Schema of its arguments.\n<tools>\n"
ASKED = (
    "\n</tools>\nTo call tools, write a list of calls and nothing behind it:\n"
    '<tool_call>[{"name": "the tool", "arguments": {"an argument": "its value"}}]</tool_call>'
)
Form = dict[str, Any]  # `calls` or `tools` of a manifest


def marker(form: Form) -> str:
    """The text at which calls begin."""
    opened = form["open"].lstrip()
    tag = re.match(r"<[^>]*>|\[[^\]]*\]", opened)
    return tag[0] if tag else opened or BEGUN


def start(output: str, form: Form) -> int:
    """The character at which calls begin; the length where there are none."""
    if not form["open"].strip():
        return 0 if output.startswith(BEGUN) else len(output)
    at = output.find(marker(form))
    return len(output) if at < 0 else at


def calls(output: str, form: Form) -> list[dict[str, Any]]:
    """The whole calls of an output."""
    rest = output[start(output, form) :].removeprefix(form["open"].lstrip())
    found: list[dict[str, Any]] = []
    while rest.startswith("{"):
        ends = [n for n in range(2, len(rest) + 1) if rest[n - 1] == "}" and _value(rest[:n]) is not None]
        value = _value(rest[: ends[0]]) if ends else None
        name = "" if value is None or not form["id_length"] else value.get("id", "")
        if value is None or not re.fullmatch(f"[A-Za-z0-9]{{{form['id_length']}}}", name):
            break
        found.append({"name": value["name"], "arguments": value[form["arguments"]], "id": name})
        rest = rest[ends[0] :]
        if form["between"] is None or not rest.startswith(form["between"]):
            break
        rest = rest.removeprefix(form["between"])
    return found


def _value(text: str) -> dict[str, Any] | None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError("a name twice")
        return dict(pairs)

    try:
        value: dict[str, Any] = json.loads(text, object_pairs_hook=once)
    except ValueError:
        return None
    return value


def parts(texts: list[str], form: Form) -> list[list[str]]:
    """What is certain after each text, and at the end: [text before calls, calls]."""
    done, said, out = "", 0, list[list[str]]()
    for text in texts:
        before = start(done, form)
        called = text if done[before:] else ""
        done += text
        at = start(done, form)
        if at < len(done):
            called = called or done[at:]
            certain = at
        elif form["open"].strip():
            mark = marker(form)
            certain = len(done) - max(n for n in range(len(mark)) if done.endswith(mark[:n]))
        else:
            certain = 0 if BEGUN.startswith(done) else len(done)
        out.append([done[said:certain], called])
        said = max(said, certain)
    return [*out, [done[said : start(done, form)], ""]]


def generic(slot: dict[str, str], between: str, behind: str) -> Form:
    """The form for a template that has none; strings around a system prompt and around a later message."""
    response = "<tool_response>\n"
    return {
        "before": slot["before"] + TOLD, "after": ASKED + slot["after"],
        "system": {"before": slot["before"], "between": "\n\n" + TOLD, "after": ASKED + slot["after"]},
        "calls": {"open": "<tool_call>[", "between": ", ", "close": "]</tool_call>", "arguments": "arguments",
                  "id_length": 0},
        "results": {"before": between + "The result of the call:\n" + response,
                    "between": "\n</tool_response>\n" + response,
                    "after": "\n</tool_response>\nSay it in a sentence." + behind, "is_quoted": False,
                    "named": None},
        "later": None,
    }  # fmt: skip


def answered(form: Form, results: list[str], called: str, begin: str) -> list[str]:
    """The strings from the end of the calls to the answer to their results."""
    around = form["results"]
    ids = [each["id"] for each in calls(called, form["calls"])]
    strings = [around["before"]]
    for number, result in enumerate(results):
        named = (
            "" if around["named"] is None else around["named"] + (ids[number] if number < len(ids) else "")
        )
        last = number == len(results) - 1
        strings += [json.dumps(result, ensure_ascii=False) if around["is_quoted"] else result]
        strings += [named + (around["after"] + begin if last else around["between"])]
    return strings
