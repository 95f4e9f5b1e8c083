"""What fits into a reader's head: rooms, functions and the loop have limits."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.parsed import parsed
from support.places import ROOT

MOST_FILES, MOST_LINES, MOST_PARAMETERS = 16, 60, 8
FOLDERS = ("src", "spec", "benchmarks", "recipes")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files() -> list[Path]:
    return [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]


def functions(file: Path) -> Iterator[Function]:
    for node in ast.walk(parsed(file)):
        if isinstance(node, Function):
            yield node


def parameters(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    names = [a.arg for a in named if a.arg not in ("self", "cls")]
    return len(names) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def is_command(function: Function) -> bool:
    """Whether typer reads its parameters as options: they are annotated with them."""
    return any("typer." in ast.unparse(a) or "options." in ast.unparse(a) for a in annotated(function))


def annotated(function: Function) -> list[ast.expr]:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    return [a.annotation for a in arguments if a.annotation is not None]


def test_no_package_has_many_files() -> None:
    packages = Counter(file.parent for file in python_files() if file.name != "__init__.py")
    assert len(packages) > 25
    assert {str(p): n for p, n in packages.items() if n > MOST_FILES} == {}


def test_no_function_is_long() -> None:
    long = {
        f"{file.relative_to(ROOT)}:{f.name}": f.end_lineno - f.lineno + 1
        for file in python_files()
        for f in functions(file)
        if f.end_lineno is not None and f.end_lineno - f.lineno + 1 > MOST_LINES and not is_command(f)
    }
    assert long == {}


def test_no_function_has_many_parameters() -> None:
    many = {
        f"{file.relative_to(ROOT)}:{f.name}": parameters(f)
        for file in python_files()
        for f in functions(file)
        if parameters(f) > MOST_PARAMETERS and not is_command(f)
    }
    assert many == {}


def test_the_loop_is_one_screen() -> None:
    """At most 32 lines of body, 15 locals and 9 imports of our own."""
    file = ROOT / "src/omnidraft/runtime/decoding/speculate.py"
    (loop,) = (f for f in functions(file) if f.name == "speculate")
    first = loop.body[1]  # after the docstring
    assert loop.end_lineno is not None and loop.end_lineno - first.lineno + 1 <= 32
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert len(stored) <= 15
    tree = parsed(file)
    own = [n for n in tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("omnidraft")]
    assert len(own) <= 9
