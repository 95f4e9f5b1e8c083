"""The Swift interface: spec/08-phones.md and the reviewed api/OmniDraft.api list the same members."""

from __future__ import annotations

import re

from support.places import ROOT

CHAPTER = (ROOT / "spec/08-phones.md").read_text(encoding="utf-8")
API = (ROOT / "mobile/ios/api/OmniDraft.api").read_text(encoding="utf-8")
TYPE = re.compile(r"public (?:final )?(?:enum|struct|actor|class|protocol) (\w+)[^{]*\{")
# Of the interface between the runtime and an engine, which no app takes.
ENGINE = {"ElementType", "GraphOptions", "GraphValue", "InferenceEngine", "OrtEngine"}
WORDS = re.compile(r"(?<!\w)(?:public|static|nonisolated|@escaping|@Sendable) ")


def parts(text: str, separator: str) -> list[str]:
    """A text cut at a separator outside of brackets."""
    found, depth = [""], 0
    for character in text:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if character == separator and depth <= 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found if part.strip()]


def plain(declaration: str) -> str:
    """A function on one line, without the values of defaults and the names of a closure's parameters."""
    text = re.sub(r"\s+", " ", WORDS.sub("", declaration)).strip().replace("-> ", "->").replace("->", "-> ")
    text = re.sub(r" = (?:\{[^}]*\}|[\w.]+(?:\(\))?|nil|\[\])", "", text)
    return text.replace("(_ done: Int, _ all: Int)", "(Int, Int)").replace("( ", "(").replace(" )", ")")


def unwrapped(text: str) -> str:
    """A text without the line ends inside of its parentheses."""
    found, depth = "", 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        found += " " if character == "\n" and depth else character
    return found


def members(body: str) -> set[str]:
    """The members that a body of the chapter declares: functions whole, all others by their names."""
    found = set[str]()
    lines = "\n".join(line.partition(" //")[0] for line in body.split("\n"))
    lines = re.sub(r"/\*.*?\*/", "", lines)
    lines = unwrapped(lines)
    for declaration in (d for line in lines.split("\n") for d in parts(line, ";")):
        text = WORDS.sub("", declaration)
        if text.startswith("func "):
            found.add(plain(text))
        elif text.startswith("init"):
            found.add("init")
        elif text.startswith(("let ", "var ")):
            found |= {part.partition(":")[0].split()[-1] for part in parts(text, ",")}
        elif text.startswith("case "):
            found |= {re.split(r"\W", part.removeprefix("case "))[0] for part in parts(text, ",")}
    return found


def body_at(text: str, at: int) -> str:
    """What is between the bracket before an index and the one that closes it."""
    depth = 1
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[at:end]
    raise AssertionError("a bracket of the chapter stays open")


def chapter() -> dict[str, set[str]]:
    """The types of the chapter's Swift block, with their members."""
    block = re.search(r"^```swift\n(public enum OmniDraft .*?)^```$", CHAPTER, re.DOTALL | re.MULTILINE)
    assert block is not None
    found = dict[str, set[str]]()
    for match in TYPE.finditer(block[1]):
        body = body_at(block[1], match.end())
        while inner := TYPE.search(body):
            body = body.replace(inner[0] + body_at(body, inner.end()) + "}", "")
        found[match[1]] = members(body)
    return found


def reviewed() -> dict[str, set[str]]:
    """The types of the reviewed listing, with their members."""
    found = dict[str, set[str]]()
    for name, body in re.findall(r"^\w+ ([\w.]+)(?:: [^{]*)? \{\n(.*?)^\}$", API, re.DOTALL | re.MULTILINE):
        if name in ENGINE or name.startswith("Engine"):
            continue
        found[name.rpartition(".")[2]] = {
            plain(line)
            if "func " in line
            else re.split(r"\W+", re.sub(r"^\s*(?:(?:let|var|case|nonisolated) )*", "", line))[0]
            for line in body.splitlines()
        }
    return found


def test_chapter_and_listing_have_the_same_members() -> None:
    said, is_there = chapter(), reviewed()
    counts = is_there.pop("RoundSeconds")
    assert all("`Stats`" in CHAPTER and count in CHAPTER for count in counts | is_there["Stats"])
    said["Stats"] |= is_there["Stats"]
    for name, found in is_there.items():
        # Each structure can be made of its fields.
        assert found - {"init"} == said.pop(name) - {"init"}, name
    assert not said
