"""`omnidraft grammar` and `generate --grammar`."""

from __future__ import annotations

import json
from pathlib import Path

from omnidraft.runtime.grammar.grammar_file import load_grammar
from support.command_line import Run, refused

SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"enum": ["yes", "no"]},
        "sum": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["answer", "sum"],
}


def test_each_kind_is_compiled(run: Run, tmp_path: Path) -> None:
    schema, out, lines = tmp_path / "a.json", tmp_path / "a.grammar", tmp_path / "lines.txt"
    schema.write_text(json.dumps(SCHEMA))
    code, said, _ = run("grammar", schema, "-o", out)
    assert code == 0 and said.startswith(f"{out}: ") and " states, " in said
    assert load_grammar(out).matches(b'{"answer": "no", "sum": 7}')
    run("grammar", schema, "--whitespace", "none", "-o", out)
    assert load_grammar(out).matches(b'{"answer":"no","sum":7}')
    run("grammar", "--regex", "a+b?", "-o", out)
    assert load_grammar(out).matches(b"aab")
    lines.write_text("red\n\ngreen\n")
    run("grammar", lines, "-o", out)
    assert load_grammar(out).matches(b"green")


def test_tools_are_compiled_for_a_bundle(run: Run, bundle: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "tools.json", tmp_path / "tools.grammar"
    file.write_text(json.dumps([{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]))
    call = b'<tool_call>[{"name": "f", "arguments": {"answer": "no", "sum": 7}}]</tool_call>'
    run("grammar", file, "--tools", bundle, "-o", out)
    grammar = load_grammar(out)
    assert grammar.matches(b"Well. " + call) and grammar.matches(b"No.")
    assert json.loads(grammar.tools)["function"]["name"] == "f"
    tools = json.loads(file.read_text())
    for choice in ("f", "required"):
        file.write_text(json.dumps({"tools": tools, "tool_choice": choice}))
        run("grammar", file, "--tools", bundle, "-o", out)
        assert load_grammar(out).matches(call) and not load_grammar(out).matches(b"No.")
    refused(run("grammar", file, "-o", out), "has a list and no schema; compile tools with")
    for wrong in ("g", ["f"]):
        file.write_text(json.dumps({"tools": tools, "tool_choice": wrong}))
        refused(run("grammar", file, "--tools", bundle, "-o", out), "is none of f")
    refused(run("grammar", "--tools", bundle, "-o", out), "give FILE or --regex")
    file.write_text("{}")
    refused(run("grammar", file, "--tools", bundle, "-o", out), "the tools are a NoneType")


def test_what_cannot_be_compiled_is_refused(run: Run, tmp_path: Path) -> None:
    schema, out = tmp_path / "a.json", tmp_path / "a.grammar"
    schema.write_text('{"not": {"items": {}}}')
    refused(run("grammar", schema, "-o", out), "has 'items' in a negation, which is not supported")
    schema.write_text("{")
    refused(run("grammar", schema, "-o", out), "is no JSON text")
    refused(run("grammar", tmp_path / "none.json", "-o", out), "cannot be read")
    refused(run("grammar", "-o", out), "give FILE or --regex")
    refused(run("grammar", schema, "--regex", "a", "-o", out), "give FILE or --regex")
    refused(run("grammar", "--regex", "a", "-o", schema), "exists and is no grammar")
    assert not out.exists() and schema.read_text() == "{"


def test_a_text_is_generated_in_a_grammar(run: Run, bundle: Path, tmp_path: Path) -> None:
    schema = tmp_path / "a.json"
    schema.write_text(json.dumps(SCHEMA))
    for mode in ("trie", "plain"):
        arguments = (
            "generate",
            bundle,
            "Is 3 and 4 equal to 7?",
            "--grammar",
            schema,
            "-n",
            40,
            "--mode",
            mode,
        )
        code, out, _ = run(*arguments, "--json", "-t", 1.0, "--seed", 3)
        made = json.loads(out)
        value = json.loads(made["text"])
        assert code == 0 and made["stop_reason"] == "complete"
        assert value["answer"] in ("yes", "no") and 0 <= value["sum"] <= 99
    refused(run(*arguments[:-4], "-n", 3), "and there is room for 3; raise max_new_tokens")
