"""`omnidraft grammar`: compile what an output must belong to."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft.errors import GrammarError, SettingError, counted
from omnidraft.grammar import Grammar, file_bytes, from_choices, from_regex, from_schema, load_grammar
from omnidraft.grammar.compile_grammar import MOST_SCHEMA_BYTES, WHITESPACES
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.strict_json import parse


def grammar(
    schema: Annotated[
        Path | None, typer.Argument(metavar="[SCHEMA.json]", help="A JSON Schema.", readable=False)
    ] = None,
    regex: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="A regular expression of the whole text.")
    ] = None,
    choices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The texts, one in each line.", readable=False)
    ] = None,
    whitespace: Annotated[
        str, typer.Option(help="In JSON: space (as json.dumps writes), none, or any.")
    ] = "space",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write; `generate --grammar` and apps read it.")
    ] = Path("my.grammar"),
) -> None:
    """Compile a JSON Schema, a pattern or a list of texts to a grammar that outputs must belong to."""
    if sum(each is not None for each in (schema, regex, choices)) != 1:
        raise SettingError("what to compile is not clear", "give one of SCHEMA.json, --regex and --choices")
    if schema is not None:
        compiled = from_schema_file(schema, whitespace)
    elif regex is not None:
        compiled = from_regex(regex)
    else:
        assert choices is not None
        lines = _read(choices).decode("utf-8", "replace").splitlines()
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
    try:
        schema: Any = parse(_read(path))
    except ValueError as error:
        raise GrammarError(f"{path} is no JSON text ({error!s:.80})") from None
    return from_schema(schema, whitespace)


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
        raise GrammarError(f"{path} cannot be read: {error.strerror}") from None
