"""List the public names of the Swift library from its symbol graphs, and find those without a comment.

python -m scripts.ios.api FOLDER
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

MODULES = ("OmniDraft", "OmniDraftORT", "OmniDraftORT@OmniDraft")  # the last has extensions of the first
KINDS = ("actor", "class", "enum", "protocol", "struct")
IMPLIED = {"Actor", "Copyable"}
# The compiler writes these for raw values and comparisons, or their protocol says what they are.
WRITTEN = re.compile(
    r"^(init\(rawValue:\)|[=!]=\(_:_:\)|hash\(into:\)|hashValue|rawValue|allCases|description)$"
)


def read(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]], dict[str, str]]:
    """The symbols by their identifiers, the protocols of each type, and the type of each member."""
    symbols: dict[str, dict[str, Any]] = {}
    protocols: dict[str, list[str]] = defaultdict(list)
    owners: dict[str, str] = {}
    for module in MODULES:
        graph = json.loads((folder / f"{module}.symbols.json").read_text(encoding="utf-8"))
        symbols |= {symbol["identifier"]["precise"]: symbol for symbol in graph["symbols"]}
        for relation in graph["relationships"]:
            if relation["kind"] == "conformsTo":
                name = relation.get("targetFallback", "").rpartition(".")[2]
                target = symbols.get(relation["target"])
                protocols[relation["source"]].append(target["names"]["title"] if target else name)
            elif relation["kind"] in ("memberOf", "requirementOf"):
                owners[relation["source"]] = relation["target"]
    return symbols, protocols, owners


def declaration(symbol: dict[str, Any]) -> str:
    """A declaration on one line."""
    text = "".join(fragment["spelling"] for fragment in symbol["declarationFragments"])
    return re.sub(r"\s+", " ", text)


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """The lines of the listing, and the names without a comment."""
    symbols, protocols, owners = read(folder)
    members: dict[str, list[str]] = defaultdict(list)
    bare = list[str]()
    for precise, symbol in symbols.items():
        name = symbol["pathComponents"][-1]
        if WRITTEN.match(name):
            continue
        if "docComment" not in symbol and not is_required(symbol, symbols, protocols, owners):
            bare.append(".".join(symbol["pathComponents"]))
        if precise in owners and not symbol["kind"]["identifier"].endswith(KINDS):
            members[owners[precise]].append(declaration(symbol))
    lines = list[str]()
    types = [s for s in symbols.values() if s["kind"]["identifier"].removeprefix("swift.") in KINDS]
    for symbol in sorted(types, key=lambda s: s["pathComponents"]):
        precise = symbol["identifier"]["precise"]
        kind = symbol["kind"]["identifier"].removeprefix("swift.")
        kind = "actor" if "Actor" in protocols[precise] else kind
        of = ", ".join(sorted(set(protocols[precise]) - IMPLIED))
        lines.append(f"{kind} {'.'.join(symbol['pathComponents'])}{': ' + of if of else ''} {{")
        lines += [f"    {member}" for member in sorted(members[precise])]
        lines += ["}", ""]
    return lines[:-1], sorted(bare)


def is_required(
    symbol: dict[str, Any],
    symbols: dict[str, dict[str, Any]],
    protocols: dict[str, list[str]],
    owners: dict[str, str],
) -> bool:
    """Whether a protocol of the library says what a member is."""
    owner = owners.get(symbol["identifier"]["precise"], "")
    return any(
        other["pathComponents"][:-1] == [protocol]
        and other["pathComponents"][-1] == symbol["pathComponents"][-1]
        for protocol in protocols[owner]
        for other in symbols.values()
    )


if __name__ == "__main__":
    found, without = listed(Path(sys.argv[1]))
    print("\n".join(found))
    if without:
        sys.exit("public names without a comment: " + ", ".join(without))
