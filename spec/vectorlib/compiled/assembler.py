"""Programs of 02-tokenizer.md as trees: small functions in place of a regular expression."""

from typing import Any

Tree = tuple[Any, ...]
Code = list[tuple[int, int, int]]


def one(name: str) -> Tree:
    """A code point of a class."""
    return ("class", name)


def seq(*parts: Tree) -> Tree:
    """Parts one after the other."""
    return ("seq", *parts)


def alt(first: Tree, *rest: Tree) -> Tree:
    """The first alternative that matches."""
    return ("alt", first, alt(*rest)) if rest else first


def star(part: Tree) -> Tree:
    """A part any number of times, as often as possible first."""
    return ("star", part)


def plus(part: Tree) -> Tree:
    """A part once or more."""
    return seq(part, star(part))


def opt(part: Tree) -> Tree:
    """A part once or not at all, once first."""
    return ("opt", part)


def upto(part: Tree, most: int) -> Tree:
    """A part once to `most` times."""
    return part if most == 1 else seq(part, opt(upto(part, most - 1)))


def next_not(name: str) -> Tree:
    """No code point of a class is next."""
    return ("look", 5, name)


def before(name: str) -> Tree:
    """A code point of a class is before."""
    return ("look", 6, name)


def before_not(name: str) -> Tree:
    """No code point of a class is before."""
    return ("look", 7, name)


def text(letters: str) -> Tree:
    """Each letter is a class of itself."""
    return seq(*(one(letter) for letter in letters))


def assemble(tree: Tree, classes: list[str]) -> Code:
    """The instructions of a program, MATCH at the end; new classes are appended."""
    code = _build(tree, 0, classes)
    return [*code, (0, 0, 0)]


def _number(name: str, classes: list[str]) -> int:
    if name not in classes:
        classes.append(name)
    return classes.index(name)


def _build(tree: Tree, base: int, classes: list[str]) -> Code:
    kind, *rest = tree
    if kind == "class":
        return [(1, _number(rest[0], classes), 0)]
    if kind == "look":
        return [(rest[0], _number(rest[1], classes), 0)]
    if kind == "seq":
        code: Code = []
        for part in rest:
            code += _build(part, base + len(code), classes)
        return code
    body = _build(rest[0], base + 1, classes)
    behind = base + 1 + len(body)
    if kind == "opt":
        return [(2, base + 1, behind), *body]
    if kind == "star":
        return [(2, base + 1, behind + 1), *body, (3, base, 0)]
    other = _build(rest[1], behind + 1, classes)
    return [(2, base + 1, behind + 1), *body, (3, behind + 1 + len(other), 0), *other]
