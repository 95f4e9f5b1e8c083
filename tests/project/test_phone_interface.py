"""The Kotlin interface: spec/08-phones.md and the reviewed api/omnidraft.api list the same members."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support.places import ROOT

CHAPTER = (ROOT / "spec/08-phones.md").read_text(encoding="utf-8")
API = (ROOT / "mobile/android/omnidraft/api/omnidraft.api").read_text(encoding="utf-8")
CLASS = re.compile(r"(?:(?:open|data|sealed|enum) )*(?:class|interface|object) (\w+)")
DEFAULT = re.compile(r" = (?:\{[^}]*\}|[\w.]+(?:\(\d*\))?|\"\"|\.\.\.)")
Class = tuple[frozenset[str], tuple[str, ...]]  # supertypes; members, sorted


def block() -> str:
    """The chapter's Kotlin block on one line, without comments."""
    found = re.search(r"^```kotlin\n(object OmniDraft .*?)^```$", CHAPTER, re.DOTALL | re.MULTILINE)
    assert found is not None
    return "\n".join(line.partition("//")[0].strip() for line in found[1].split("\n"))


def end_of(text: str, at: int) -> int:
    """The index behind the bracket that closes the one at an index."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[end], 0)
        if not depth:
            return end + 1
    raise AssertionError(f"a bracket of the chapter stays open: {text[at : at + 40]}")


def statements(text: str) -> list[str]:
    """The parts of a class's body: a line break or semicolon ends one, but not inside brackets."""
    at, marks = 0, list[str]()
    while at < len(text):
        end = end_of(text, at) if text[at] in "({" else at + 1
        marks.append("\0" if text[at:end] in "\n;" else text[at:end])
        at = end
    return [part.strip() for part in "".join(marks).split("\0")]


def plain(text: str) -> str:
    """A declaration without packages, outer classes, spaces of layout and values of defaults."""
    text = re.sub(r"\b(?:[a-z]\w*\.)+(?=[A-Z])|\bGenerationConfig\.(?=[A-Z])", "", text.replace("\n", " "))
    text = DEFAULT.sub(" = ...", text).replace(": Unit", "")
    return re.sub(r",\s*\)", ")", re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", text))).strip()


def declared(text: str, outer: str = "") -> Iterator[tuple[str, Class]]:
    """The classes of a part of the chapter's block, and those inside them."""
    at = 0
    while found := CLASS.search(text, at):
        name, members, head, at = outer + found[1], list[str](), "", found.end()
        if text[at : at + 1] == "(":
            end = end_of(text, at)
            given = plain(text[at:end])
            members += [f"constructor{re.sub(r'va[lr] ', '', given)}"]
            members += [DEFAULT.sub("", m) for m in re.findall(r"va[lr] \w+: (?:[^,()<]|<[^>]*>)+", given)]
            at = end
        if parents := re.match(r" : ([\w.]+(?:\(\))?)", text[at:]):
            head, at = parents[1].rstrip("()"), at + parents.end()
        if body := re.match(r"\s*\{", text[at:]):
            end = end_of(text, at + body.end() - 1)
            inside, at = text[at + body.end() : end - 1], end
            if found[0].startswith("enum"):
                members += [f"entry {entry.strip()}" for entry in inside.split(",")]
            else:
                yield from declared(inside, f"{name}.")
                members += [plain(m) for m in statements(inside) if re.match(r"(fun|va[lr]) ", m)]
        yield name, (frozenset({head} - {""}), tuple(sorted(members)))


def listed() -> dict[str, Class]:
    """The classes of api/omnidraft.api."""
    classes = {}
    for head, body in re.findall(r"^(\w[^\n]*) \{\n(.*?)^\}$", API, re.DOTALL | re.MULTILINE):
        kind, _, parents = head.partition(" : ")
        supers = {plain(parent) for parent in parents.split(", ")} - {"", "Enum"}
        members = [plain(line) for line in body.split("\n") if line and "fun toString()" not in line]
        if members == ["constructor()"]:
            members = []
        classes[kind.split()[-1]] = frozenset(supers), tuple(sorted(members))
    return classes


def test_the_chapter_lists_the_public_interface_with_its_members() -> None:
    chapter, api = dict(declared(block())), listed()
    assert len(api) > 30
    errors = {name for name in api if name.endswith("Exception")} - chapter.keys()
    assert {name: chapter.get(name) for name in api if name not in errors} == {
        name: each for name, each in api.items() if name not in errors
    }
    assert chapter.keys() <= api.keys()


def test_each_other_exception_is_in_the_table_and_has_the_parameters_of_the_first() -> None:
    api = listed()
    table = set(re.findall(r"^\|[^|]+\| `\w+` \| `(\w+)` \|", CHAPTER, re.MULTILINE))
    assert table == {name for name in api if name.endswith("Exception")} - {"OmniDraftException"}
    own = dict(declared(block())).keys()
    parameters = next(m for m in api["OmniDraftException"][1] if m.startswith("constructor"))
    others = {name: api[name] for name in table - own}
    assert {name: members for name, (_, members) in others.items()} == dict.fromkeys(others, (parameters,))
    kinds = {name for name, (parents, _) in others.items() if "BundleException" in parents}
    sentence = re.search(r"`(\w+)` and `(\w+)` are kinds of\s+`BundleException`", CHAPTER)
    assert sentence is not None and set(sentence.groups()) == kinds
    assert {parent for name, (parents, _) in others.items() if name not in kinds for parent in parents} == {
        "OmniDraftException"
    }
