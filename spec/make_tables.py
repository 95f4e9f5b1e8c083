"""Write the constants that three languages share, from the tables beside this file.

    python spec/make_tables.py

A number, a list of names or the codes of a format stand once, in spec/*.json. What is written is committed,
and a test writes it again in memory.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPEC = Path(__file__).resolve().parent
ROOT = SPEC.parent
PYTHON, KOTLIN, SWIFT = "python", "kotlin", "swift"
PLACES = {
    PYTHON: ("src/omnidraft", ".py"),
    KOTLIN: ("mobile/android/omnidraft/src/main/kotlin/io/omnidraft", ".kt"),
    SWIFT: ("mobile/ios/Sources/OmniDraft", ".swift"),
}
# Of an export, or of a tool that the ports have not; their words are cases of an enum there.
PYTHON_ALONE = re.compile(
    "context_|sync_kept|mode|verification|num_draft|temperature|top_[kp]|min_p|repet|head_"
)
# The table, its files (their folder in Python and in the other two, and their name), and whether Kotlin and
# Swift keep the constants in an object of that name.
TABLES = [
    ("defaults.json", "", "", "defaults", True),
    ("bundle.json", "runtime/bundle", "bundle", "bundle_limits", True),
    ("tokenizer.json", "runtime/vocab", "vocab", "tokenizer_format", False),
]


def camel(name: str) -> str:
    """`max_kv_bytes` as `maxKvBytes`."""
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), name)


def pascal(name: str) -> str:
    return camel(f"_{name}")


def filled(items: list[str], indent: int) -> list[str]:
    """Items with commas, as many in a line as fit."""
    joined = " ".join(f"{item},".replace(" ", "\0") for item in items)
    lines = textwrap.wrap(joined, 108 - indent, break_long_words=False, break_on_hyphens=False)
    return [" " * indent + line.replace("\0", " ") for line in lines]


def constants(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name and value of each constant; a section is put in front of the names in it."""
    for name, value in values.items():
        if name in ("sections", "enums", "provider_options", "factors"):
            continue
        if isinstance(value, dict):
            yield from constants(value, f"{prefix}{name}_")
        else:
            yield prefix + name, value


def constant(language: str, name: str, value: Any, indent: str) -> str:
    """The line of a constant: a number, a string, or a list of strings or of reals."""
    if isinstance(value, str | list):
        text = json.dumps(value)
    else:
        text = f"{value:_}" if isinstance(value, int) else repr(value)
    if language == PYTHON:
        return f"{name.upper()}: Final = {text}"
    if language == SWIFT:
        return f"{indent}{'static ' * bool(indent)}let {camel(name)} = {text}"
    access = "" if indent else "internal "
    if isinstance(value, list):
        kind = "String" if isinstance(value[0], str) else "Double"
        return f"{indent}{access}val {name.upper()}: List<{kind}> = listOf({text[1:-1]})"
    return f"{indent}{access}const val {name.upper()} = {text}"


def options(language: str, providers: dict[str, list[str]]) -> Iterator[str]:
    """The options that a manifest may set, by provider."""
    if language == PYTHON:
        first = "PROVIDER_OPTIONS: Final[dict[str, list[str]]] = {"
        before, after, last = '    "{}": [', "    ],", "}  # fmt: skip"
    elif language == KOTLIN:
        first = "    val PROVIDER_OPTIONS: Map<String, List<String>> = linkedMapOf("
        before, after, last = '        "{}" to listOf(', "        ),", "    )"
    else:
        first = "    static let providerOptions: [(provider: String, options: [String])] = ["
        before = '        (\n            "{}",\n            ['
        after, last = "            ]\n        ),", "    ]"
    inner = {PYTHON: 8, KOTLIN: 12, SWIFT: 16}[language]
    yield first
    for provider, names in providers.items():
        if names:
            yield before.format(provider)
            yield from filled([json.dumps(name) for name in names], inner)
            yield after
        else:
            empty = {
                PYTHON: '    "{}": [],',
                KOTLIN: '        "{}" to emptyList(),',
                SWIFT: '        ("{}", []),',
            }
            yield empty[language].format(provider)
    yield last


def sections(language: str, sizes: dict[str, int]) -> Iterator[str]:
    """The sections of a file in their order, and the bytes of an entry of each."""
    if language == PYTHON:
        yield from ["SECTIONS: Final = {", *filled([f'"{name}": {size}' for name, size in sizes.items()], 4)]
        yield "}  # fmt: skip"
    elif language == KOTLIN:
        yield "internal val SECTIONS: Map<String, Int> = linkedMapOf("
        yield from [*filled([f'"{name}" to {size}' for name, size in sizes.items()], 4), ")"]
    else:
        yield f"let sectionSizes = [{', '.join(map(str, sizes.values()))}]"
        yield from ["", "enum TokenizerSection: String, CaseIterable, Sendable {"]
        yield from [*(f'    case {camel(name)} = "{name}"' for name in sizes), "}"]


def enum(language: str, name: str, kind: str, doc: str, members: dict[str, tuple[int, str]]) -> Iterator[str]:
    """Numbers with names: `flags` are bits, `numbers` may be any, and `cases` are told apart by a switch."""
    if language == PYTHON:
        head = [f"class {name}({'IntFlag' if kind == 'flags' else 'IntEnum'}):", f'    """{doc}"""', ""]
        line, mark, tail = "    {upper} = {number}", "  # ", []
    elif language == KOTLIN and kind == "cases":
        head = [f"/** {doc} */", f"internal enum class {name}(val number: Long) {{"]
        line, mark, tail = "    {upper}({number}),", " // ", ["}"]
    elif language == KOTLIN:
        head = [f"/** {doc} */", f"internal object {name} {{"]
        line, mark, tail = "    const val {upper} = {number}", " // ", ["}"]
    else:
        head = [f"/// {doc}", f"enum {name}{'' if kind == 'flags' else ': Int, Sendable'} {{"]
        line, mark, tail = "    {word} {camel} = {number}", "  // ", ["}"]
    yield from head
    word = "static let" if kind == "flags" else "case"
    for member, (number, comment) in members.items():
        text = line.format(upper=member.upper(), number=number, camel=camel(member), word=word)
        yield text + (mark + comment if comment else "")
    yield from tail


def module(language: str, source: str, folder: str, name: str, has_object: bool) -> str:
    """The text of a file."""
    mark = f"Generated by spec/make_tables.py from spec/{source}; do not edit."
    table = json.loads((SPEC / source).read_text("utf-8"))
    indent = "    " if has_object and language != PYTHON else ""
    lines = [
        constant(language, *each, indent)
        for each in constants(table)
        if language == PYTHON or not PYTHON_ALONE.match(each[0])
    ]
    if "provider_options" in table:
        lines += options(language, table["provider_options"])
    if indent:
        lines = [f"{'internal object' if language == KOTLIN else 'enum'} {pascal(name)} {{", *lines, "}"]
    if "sections" in table:
        lines += sections(language, table["sections"])
    for enum_name, (kind, doc, members) in table.get("enums", {}).items():
        lines += [""] * (2 if language == PYTHON else 1) + list(enum(language, enum_name, kind, doc, members))
    if language == PYTHON:
        head = [f'"""{mark}"""', "", *(["from enum import IntEnum, IntFlag"] * ("enums" in table))]
        head += ["from typing import Final", ""]
    elif language == KOTLIN:
        head = [f"// {mark}", f"package io.omnidraft{'.' * bool(folder)}{folder}", ""]
    else:
        head = [f"// {mark}", ""]
    return "\n".join([*head, *lines, ""])


def files() -> Iterator[tuple[Path, str]]:
    """Path and text of each file."""
    for source, room, folder, name, has_object in TABLES:
        for language, (root, ending) in PLACES.items():
            inner, stem = (room, name) if language == PYTHON else (folder, pascal(name))
            text = module(language, source, folder, name, has_object)
            yield ROOT / root / inner / f"{stem}{ending}", text


if __name__ == "__main__":
    for path, text in files():
        path.write_text(text, "utf-8")
