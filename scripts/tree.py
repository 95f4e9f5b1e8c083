"""Write docs/tree.md: every module and document of the project with its own description.

python scripts/tree.py           # `make tree`
python scripts/tree.py --check   # exit status 1 if the file is out of date
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = Path("docs/tree.md")
FOLDERS = ("src/omnidraft", "spec", "docs", "tests", "benchmarks", "recipes", "scripts", "examples")
KINDS = (".py", ".md")
HEAD = """# Every file

Written by `make tree` from the first paragraph of each module's docstring and the heading of each document;
do not edit it. Data files are not listed. [layout.md](layout.md) says which package does what, and which may
import which.
"""


def description(path: Path) -> str:
    """The first paragraph of a module's docstring, or the first heading of a document; else nothing."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        headings = (line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("# "))
        return next(headings, "")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def listed(folder: Path) -> list[Path]:
    """The modules and documents that lie directly in a folder, except empty `__init__.py` files."""
    files = (path for path in folder.iterdir() if path.is_file() and path.suffix in KINDS)
    return sorted(path for path in files if path.name != "__init__.py" or path.stat().st_size)


def folders(root: Path) -> Iterator[Path]:
    """Every folder below `root`, itself included, that holds a module or a document."""
    for folder in sorted([root, *(path for path in root.rglob("*") if path.is_dir())]):
        if folder.name != "__pycache__" and listed(folder):
            yield folder


def render(root: Path = ROOT) -> str:
    """The text of docs/tree.md."""
    parts = [HEAD]
    for name in FOLDERS:
        for folder in folders(root / name):
            files = listed(folder)
            width = max(len(path.name) for path in files) + 2
            lines = [f"    {path.name:<{width}}{description(path)}".rstrip() for path in files]
            parts.append(f"## {folder.relative_to(root).as_posix()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> int:
    """Write the file, or compare it with what it should hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit status 1 if out of date")
    if not parser.parse_args().check:
        (ROOT / TREE).write_text(render(), encoding="utf-8")
        return 0
    if (ROOT / TREE).read_text(encoding="utf-8") == render():
        return 0
    print(f"{TREE} is out of date; run `make tree`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
