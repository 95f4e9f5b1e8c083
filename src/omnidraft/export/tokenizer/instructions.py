"""Make a program of an expression's tree. The order of the attempts is that of a backtracking matcher."""

from collections.abc import Callable

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer.regex import Choice, CodePoint, Look, Node, Repeat, Sequence
from omnidraft.runtime.vocab.tokenizer_format import MOST_PROGRAM, Op

Code = list[tuple[int, int, int]]


def instructions(node: Node, class_of: Callable[[CodePoint], int]) -> Code:
    """The instructions (op, a, b) of a program."""
    builder = _Builder(class_of)
    builder.add(node)
    builder.emit(Op.MATCH)
    if len(builder.code) > MOST_PROGRAM:
        raise TokenizerError(f"a regular expression of {len(builder.code)} instructions is not supported")
    return builder.code


class _Builder:
    def __init__(self, class_of: Callable[[CodePoint], int]) -> None:
        self.code: Code = []
        self._class_of = class_of

    def emit(self, op: Op, a: int = 0, b: int = 0) -> int:
        """Append an instruction and return its place."""
        self.code.append((int(op), a, b))
        return len(self.code) - 1

    def add(self, node: Node) -> None:
        if isinstance(node, CodePoint):
            self.emit(Op.CODE_CLASS, self._class_of(node))
        elif isinstance(node, Look):
            kinds = (Op.NEXT_IS, Op.NEXT_IS_NOT) if node.ahead else (Op.BEFORE_IS, Op.BEFORE_IS_NOT)
            self.emit(kinds[node.negated], self._class_of(node.part))
        elif isinstance(node, Sequence):
            for part in node.parts:
                self.add(part)
        elif isinstance(node, Choice):
            self._add_choice(node)
        else:
            self._add_repeat(node)

    def _add_choice(self, node: Choice) -> None:
        ends = []
        for part in node.parts[:-1]:
            split = self.emit(Op.SPLIT)
            self.add(part)
            ends.append(self.emit(Op.JUMP))
            self.code[split] = (int(Op.SPLIT), split + 1, len(self.code))
        self.add(node.parts[-1])
        for end in ends:
            self.code[end] = (int(Op.JUMP), len(self.code), 0)

    def _add_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self.add(node.part)
        if node.most is None:
            split = self.emit(Op.SPLIT)
            self.add(node.part)
            self.emit(Op.JUMP, split)
            self._close([split], node.style)
            if node.style == "possessive":  # a shorter run would be followed by a character of the class
                assert isinstance(node.part, CodePoint)
                self.emit(Op.NEXT_IS_NOT, self._class_of(node.part))
        elif node.style == "possessive":
            self._add_optional(node)
        else:
            splits = []
            for _ in range(node.most - node.least):
                splits.append(self.emit(Op.SPLIT))
                self.add(node.part)
            self._close(splits, node.style)

    def _add_optional(self, node: Repeat) -> None:
        """`X?+`: a character of X, or no character where none of X follows."""
        assert isinstance(node.part, CodePoint) and (node.least, node.most) == (0, 1)
        split = self.emit(Op.SPLIT)
        self.add(node.part)
        jump = self.emit(Op.JUMP)
        self.code[split] = (int(Op.SPLIT), split + 1, len(self.code))
        self.emit(Op.NEXT_IS_NOT, self._class_of(node.part))
        self.code[jump] = (int(Op.JUMP), len(self.code), 0)

    def _close(self, splits: list[int], style: str) -> None:
        """Let each split go on with its next instruction or behind the last; lazy ones prefer the latter."""
        for split in splits:
            inside, behind = split + 1, len(self.code)
            first, second = (behind, inside) if style == "lazy" else (inside, behind)
            self.code[split] = (int(Op.SPLIT), first, second)
