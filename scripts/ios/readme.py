"""Write the Swift blocks of mobile/ios/README.md as files that a compiler takes.

python -m scripts.ios.readme README FOLDER

A block that imports something is a file. Any other block is the body of a function, whose parameters are
what it takes from blocks before it.
"""

import re
import sys
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^( *)```swift\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
IMPORTS = "import Foundation\nimport OmniDraft\nimport OmniDraftORT\n\n"
GIVEN = {
    "size": "Int",
    "digest": "String",
    "base": "URL",
    "place": "URL",
    "url": "URL",
    "model": "LanguageModel",
    "session": "TextSession",
}


def files(readme: str) -> dict[str, str]:
    """The files by their names."""
    found = dict[str, str]()
    for number, (_, block) in enumerate(BLOCK.findall(readme), start=1):
        text = textwrap.dedent(block)
        if "import PackageDescription" in text:
            found["Package.swift"] = text
            continue
        if text.startswith("import "):
            found[f"Block{number}.swift"] = text
            continue
        needed = [name for name in GIVEN if re.search(rf"\b{name}\b", text) and f"let {name} =" not in text]
        given = ", ".join(f"_ {name}: {GIVEN[name]}" for name in needed)
        body = textwrap.indent(text, "    ")
        found[f"Block{number}.swift"] = f"{IMPORTS}func block{number}({given}) async throws {{\n{body}}}\n"
    return found


if __name__ == "__main__":
    written = files(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for name, content in written.items():
        (Path(sys.argv[2]) / name).write_text(content, encoding="utf-8")
    print(f"README.md: {len(written)} blocks of Swift")
