"""How much a compiled tokenizer may lengthen a text, and work on it: 02-tokenizer.md, Bounds.

And files at the bounds and above them.
"""

from math import ceil, prod
from typing import Any

from vectorlib.compiled.assembler import Code, text
from vectorlib.compiled.file import Compiled
from vectorlib.reference.tokenizer import SPACE

MOST_GROWTH, MOST_WORK = 64, 2048


def cost(program: Code) -> int:
    """Instructions that run for each position of a text, at most."""

    def way(at: int) -> int:
        length = 1
        while program[at][0] not in (0, 2):
            at = program[at][1] if program[at][0] == 3 else at + 1
            length += 1
        return length

    return way(0) + sum(way(a) + way(b) for op, a, b in program if op == 2)


def growth(compiled: Compiled, count: int | None = None) -> int:
    """How many times longer the first `count` steps may make a text, in bytes; all for None."""

    def size(index: int) -> int:
        return len(compiled.strings[index].encode())

    def of(op: int, a: int, b: int) -> int:
        if op in (3, 6):
            return max(1, ceil(size(b) / size(a)))
        if op == 4:
            return max(1, size(b))
        return {1: 3, 9: 2, 5: 1}[op] if op in (1, 5, 9) else 1 + size(a)

    return prod(of(op, a, b) for op, a, b, _ in compiled.steps[:count])


def work(compiled: Compiled) -> int:
    """Units of work for each byte of a text."""
    tokens = [len(token["content"].encode()) for token in compiled.spec["added_tokens"]]
    normalisers = sum(op <= 4 for op, *_ in compiled.steps)
    total = growth(compiled, normalisers) * max(tokens, default=0)
    for count, (op, a, _, _) in enumerate(compiled.steps):
        if op in (4, 5):
            units = cost(compiled.programs[a])
        else:
            units = len(compiled.strings[a].encode()) if op in (3, 6, 7, 8) else 1
        total += growth(compiled, count) * units
    return total


def too_much(spec: dict[str, Any], level: dict[str, Any]) -> list[tuple[str, str, Compiled]]:
    """Name, why and contents of files above a bound.

    Args:
        spec: a tokenizer.json with SentencePiece's pieces.
        level: one with bytes as pieces.
    """

    def pieces(**changes: Any) -> Compiled:
        return Compiled({**spec, **changes}, 1)

    content = {**spec["added_tokens"][0], "id": 5, "special": False, "content": "x" * 2100}
    searched = [*spec["added_tokens"], content]
    control = [*spec["added_tokens"], {**content, "content": f"<{content['content']}>", "special": True}]
    nfc = pieces()
    for _ in range(4):
        nfc.nfc()
    cases = [
        ("growth_65", "a replacement that makes a text 65 times longer",
         pieces().on_strings(3, " ", SPACE * 21 + "xx")),
        ("growth_bytes", "64 times as many code points, 256 times as many bytes",
         pieces().on_strings(3, "a", "\U0001f600" * 64)),
        ("growth_prepend", "a string of 64 bytes before each text", pieces().on_strings(2, "x" * 64)),
        ("growth_nfc", "NFC four times, each of which may triple a text", nfc),
        ("growth_level", "a prefix of 32 bytes, and BYTES",
         Compiled(level, 0).on_strings(7, "x" * 32).bytes()),
        ("work_2049", "a unit too much", at_bounds(pieces(), 128)),
        ("work_steps", "many splits in many steps", _programs(pieces(), chain(510), 4)),
        ("work_shared", "255 splits that lead to 255 instructions", _programs(pieces(), shared(255), 1)),
        ("work_string", "a replacement of a string of 4,096 bytes", pieces().on_strings(3, "x" * 4096, "y")),
        ("work_content", "an added token of 2,100 letters",
         pieces(added_tokens=searched).on_strings(2, SPACE)),
        ("work_control", "a control token of 2,102 letters", pieces(added_tokens=control)),
    ]  # fmt: skip
    for name, _, compiled in cases:
        assert growth(compiled) > MOST_GROWTH or work(compiled) > MOST_WORK, name
        assert name.startswith("growth") == (growth(compiled) > MOST_GROWTH), name
    assert work(at_bounds(pieces(), 128)) == MOST_WORK + 1
    assert growth(cases[0][2]) == MOST_GROWTH + 1
    return cases


LITERAL = "hellohellohellohellosnow"
LONGER = SPACE * 21 + "o"  # 64 bytes


def at_bounds(compiled: Compiled, letters: int = 127) -> Compiled:
    """Steps that may make a text 64 times longer, and with 127 letters take 2,048 units of work."""
    return compiled.on_strings(3, "b" * letters, "b").on_strings(3, " ", LONGER).split(text(LITERAL))


def chain(splits: int) -> Code:
    """A program that visits many SPLITs at each position, and fails behind each."""
    return [*((2, at + 1, at + 1) for at in range(splits)), (1, 0, 0), (0, 0, 0)]


def shared(splits: int) -> Code:
    """A program whose SPLITs all lead to the same long way, which consumes nothing and fails."""
    way = [(5, 0, 0)] * 255
    return [*((2, splits, at + 1) for at in range(splits)), *way, (1, 0, 0), (0, 0, 0)]


def _programs(compiled: Compiled, program: Code, steps: int) -> Compiled:
    """Splits by a program; class 0 has a letter that no text of the vectors has."""
    compiled.classes.append("\U00020000")
    compiled.programs.append(program)
    compiled.steps += [(5, 0, 1, 0)] * steps
    return compiled
