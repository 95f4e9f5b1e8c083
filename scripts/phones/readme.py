"""Write the code of a library's README as files that a compiler takes.

python -m scripts.phones.readme README FOLDER

A block that imports something is a file. Any other block is the body of a function, whose parameters are
what it takes from blocks before it or from the app. Blocks of Gradle are left out.
"""

import re
import sys
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^( *)```(swift|kotlin)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
IMPORTS = {
    "swift": "import Foundation\nimport OmniDraft\nimport OmniDraftORT\n\n",
    "kotlin": """import android.content.Context
import android.os.Handler
import android.os.Looper
import android.util.Log
import android.widget.TextView
import io.omnidraft.*
import java.io.File
import java.util.concurrent.Executor
import org.json.JSONObject

""",
}
GIVEN = {
    "swift": {
        "size": "Int",
        "digest": "String",
        "base": "URL",
        "place": "URL",
        "url": "URL",
        "model": "LanguageModel",
        "session": "TextSession",
    },
    "kotlin": {
        "context": "Context",
        "textView": "TextView",
        "executor": "Executor",
        "show": "(String) -> Unit",
        "save": "(JSONObject) -> Unit",
        "weather": "(String) -> String",
        "base": "File",
        "model": "LanguageModel",
        "session": "TextSession",
    },
}
FUNCTION = {
    "swift": "func block{number}({given}) async throws {{\n{body}}}\n",
    "kotlin": "fun block{number}({given}) {{\n{body}}}\n",
}
ENDINGS = {"swift": "swift", "kotlin": "kt"}


def files(readme: str) -> dict[str, str]:
    """The files by their names."""
    found = dict[str, str]()
    for number, (_, language, block) in enumerate(BLOCK.findall(readme), start=1):
        text, name = textwrap.dedent(block), f"Block{number}.{ENDINGS[language]}"
        if "import PackageDescription" in text:
            found["Package.swift"] = text
        elif text.startswith("import "):
            found[name] = text
        elif not re.match(r"includeBuild|dependencies", text):
            found[name] = IMPORTS[language] + _function(language, number, text)
    return found


def _function(language: str, number: int, text: str) -> str:
    made = re.findall(r"(?:\b(?:let|val)|\{) (\w+) (?:=|->)", text)
    label = "_ " if language == "swift" else ""
    needed = [name for name in GIVEN[language] if re.search(rf"\b{name}\b", text) and name not in made]
    given = ", ".join(f"{label}{name}: {GIVEN[language][name]}" for name in needed)
    return FUNCTION[language].format(number=number, given=given, body=textwrap.indent(text, "    "))


if __name__ == "__main__":
    written = files(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if not written:
        raise SystemExit(f"{sys.argv[1]} has no code of the library")
    for name, content in written.items():
        (Path(sys.argv[2]) / name).write_text(content, encoding="utf-8")
    print(f"README.md: {len(written)} blocks of code")
