"""A program that cuts words out of a text, by classes of code points (spec/02-tokenizer.md).

It replaces a regular expression of a pre-tokenizer. No pair (SPLIT, position) is visited twice, so the time
for a text is at most its length times the cost of the program.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnidraft.runtime.vocab.tokenizer_format import Op


@dataclass(frozen=True)
class Program:
    """The instructions of a program; execution begins at the first.

    Attributes:
        ops, a, b: of each instruction; targets of jumps count from the program's beginning.
        byte, bit: of the mark of each SPLIT among the marks of a position; 0 and 1 for other instructions.
        width: bytes of the marks of a position, which have a bit for each SPLIT.
        cost: instructions that run for each position of a text, at most.
    """

    ops: Sequence[int]
    a: Sequence[int]
    b: Sequence[int]
    byte: Sequence[int]
    bit: Sequence[int]
    width: int
    cost: int


def make_program(code: Sequence[tuple[int, int, int]], classes: int) -> Program:
    """A program of instructions (op, a, b), checked: execution stays inside and ends.

    Raises:
        ValueError: an unknown instruction, a class or a target outside, a JUMP back to another instruction
            than SPLIT, or a last instruction that goes on behind the program.
    """
    size = len(code)
    for at, (op, a, b) in enumerate(code):
        if op > Op.BEFORE_IS_NOT:
            raise ValueError(f"instruction {at} is {op}, which is not an instruction")
        if op in (Op.SPLIT, Op.JUMP):
            if a >= size or (op == Op.SPLIT and b >= size):
                raise ValueError(f"instruction {at} leads outside")
            if op == Op.JUMP and a <= at and code[a][0] != Op.SPLIT:
                raise ValueError(f"instruction {at} jumps back to an instruction that is not SPLIT")
        elif op != Op.MATCH and a >= classes:
            raise ValueError(f"instruction {at} names class {a} of {classes}")
    if not size or code[-1][0] not in (Op.MATCH, Op.SPLIT, Op.JUMP):
        raise ValueError("the last instruction is not MATCH, SPLIT or JUMP")
    number, splits = [], 0
    for op, _, _ in code:
        number.append(splits if op == Op.SPLIT else 0)
        splits += op == Op.SPLIT
    byte, bit = [each >> 3 for each in number], [1 << (each & 7) for each in number]
    ops, firsts, seconds = (list(column) for column in zip(*code, strict=True))
    return Program(ops, firsts, seconds, byte, bit, -(-splits // 8), _cost(code))


def _cost(code: Sequence[tuple[int, int, int]]) -> int:
    """Instructions that run for each position: from the beginning, and both ways from each SPLIT.

    A way ends with the next SPLIT or MATCH. Only a SPLIT remembers that it was visited, so instructions that
    many SPLITs lead to count for each of them.
    """
    ways = [1] * len(code)  # instructions on the way from each one
    for at, (op, a, _) in reversed(list(enumerate(code))):
        if op == Op.JUMP:
            ways[at] += ways[a] if a > at else 1  # back to a SPLIT
        elif op not in (Op.MATCH, Op.SPLIT):
            ways[at] += ways[at + 1]
    return ways[0] + sum(ways[a] + ways[b] for op, a, b in code if op == Op.SPLIT)


def find_matches(program: Program, masks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Matches (start, end) in a text, from left to right; none overlaps the one before it.

    Args:
        masks: of each code point of the text, the classes that it is in, a bit each.
    """
    # A state that failed once fails again, also in a later attempt: the marks last for the whole text.
    visited = bytearray(program.width * (len(masks) + 1))
    start = 0
    while start < len(masks):
        end = _attempt(program, masks, start, visited)
        if end > start:
            yield start, end
            start = end
        else:
            start += 1


def _attempt(program: Program, masks: Sequence[int], start: int, visited: bytearray) -> int:
    """The end of the match that begins at `start`; -1 if none does."""
    ops, first, second = program.ops, program.a, program.b
    byte, bit, width, size = program.byte, program.bit, program.width, len(masks)
    waiting: list[tuple[int, int]] = []  # (instruction, position) to try where the current path fails
    pc, at = 0, start
    while True:
        op = ops[pc]
        if op == 1:
            if at < size and masks[at] >> first[pc] & 1:
                at += 1
                pc += 1
                continue
        elif op == 2:
            place, mark = at * width + byte[pc], bit[pc]
            marks = visited[place]
            if not marks & mark:
                visited[place] = marks | mark
                waiting.append((second[pc], at))
                pc = first[pc]
                continue
        elif op == 3:
            pc = first[pc]
            continue
        elif op == 0:
            return at
        else:
            other = at if op <= 5 else at - 1
            inside = 0 <= other < size and masks[other] >> first[pc] & 1
            if bool(inside) == (op % 2 == 0):
                pc += 1
                continue
        if not waiting:
            return -1
        pc, at = waiting.pop()
