"""`omnidraft grammar`: compile what an output must belong to."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.commands.terminal.options import signer
from omnidraft.errors import GrammarError, SettingError, counted
from omnidraft.grammar import Grammar, file_bytes, from_choices, from_regex, from_schema, load_grammar
from omnidraft.grammar.call_grammar import from_calls
from omnidraft.grammar.compile_grammar import MOST_SCHEMA_BYTES, WHITESPACES
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.chat.tools import read_tools
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.strict_json import parse


def grammar(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A JSON Schema (.json), or the texts, one in each line; with --tools a list of tools.",
            readable=False,
        ),
    ] = None,
    regex: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="A regular expression of the whole text.")
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="BUNDLE", help="FILE has tools that answers of BUNDLE may call.", readable=False
        ),
    ] = None,
    whitespace: Annotated[
        str, typer.Option(help="In JSON: space (as json.dumps writes), none, or any.")
    ] = "space",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write; `generate --grammar` and apps read it.")
    ] = Path("my.grammar"),
) -> None:
    """Compile a JSON Schema, a pattern, choices or tools to a grammar that outputs must belong to."""
    if (file is None) == (regex is None) or (file is None and tools is not None):
        raise SettingError("what to compile is not clear", "give FILE or --regex")
    if regex is not None:
        compiled = from_regex(regex)
    elif file is not None and tools is not None:
        compiled = _of_tools(_json(file), tools)
    elif file is not None and file.suffix == ".json":
        compiled = from_schema_file(file, whitespace)
    else:
        assert file is not None
        lines = _read(file).decode("utf-8", "replace").splitlines()
        compiled = from_choices([line for line in lines if line])
    _refuse_foreign(out)
    write_atomically(out, file_bytes(compiled))
    states, calls = len(compiled.accepting), len(compiled.calls)
    recursion = f", and nests {compiled.depth} deep" if calls else ""
    sys.stdout.write(f"{out}: {counted(states, 'state')}, {out.stat().st_size:,} bytes{recursion}\n")


def read_grammar(path: Path) -> Grammar:
    """The grammar in a file: compiled, or a JSON Schema by the suffix .json.

    Raises:
        GrammarError: it is refused.
    """
    return from_schema_file(path) if path.suffix == ".json" else load_grammar(path)


def from_schema_file(path: Path, whitespace: str = "space") -> Grammar:
    """The grammar of a JSON Schema in a file."""
    if whitespace not in WHITESPACES:
        raise SettingError(f'--whitespace "{whitespace}" is unknown', f"use one of {', '.join(WHITESPACES)}")
    schema = _json(path)
    if isinstance(schema, list) or (isinstance(schema, dict) and isinstance(schema.get("tools"), list)):
        remedy = "compile tools with `omnidraft grammar --tools BUNDLE`"
        raise GrammarError(f"{path} has a list and no schema", remedy)
    return from_schema(schema, whitespace)


def _of_tools(value: Any, bundle: Path) -> Grammar:
    """The grammar of answers that call tools, which it lists.

    Args:
        value: a list of tools, or an object of `tools` and `tool_choice` as OpenAI's requests have them.
    """
    listed: dict[str, Any] = value if isinstance(value, dict) else {"tools": value}
    tools: Any = listed.get("tools")
    choice, read = listed.get("tool_choice", "auto"), read_tools(tools)
    form = open_bundle(bundle, signer()).prompt.tool_form
    if form is None:
        raise SettingError(f"{bundle} has no chat template that lists tools", "use another bundle")
    chosen = {tool.name: tool.arguments for tool in read if choice in ("auto", "required", tool.name)}
    if not chosen:
        names = ", ".join(tool.name for tool in read)
        raise SettingError(
            f"tool_choice {choice!r:.60} is none of {names}", "use auto, required or one of them"
        )
    most = None if choice in ("auto", "required") else 1
    compiled = from_calls(chosen, form.calls, free=choice == "auto", most=most)
    return replace(compiled, tools=form.listing([tool.value for tool in read]))


def _json(path: Path) -> Any:
    try:
        return parse(_read(path))
    except ValueError as error:
        raise GrammarError(f"{path} is no JSON text ({error!s:.80})", "correct the file") from None


def _refuse_foreign(out: Path) -> None:
    """Only a grammar is replaced."""
    if out.exists():
        try:
            load_grammar(out)
        except GrammarError:
            raise SettingError(
                f"{out} exists and is no grammar", "give another --out, or delete it"
            ) from None


def _read(path: Path) -> bytes:
    try:
        return read_whole(path, MOST_SCHEMA_BYTES)
    except OSError as error:
        raise GrammarError(
            f"{path} cannot be read: {error.strerror}", "give a file that can be read"
        ) from None
