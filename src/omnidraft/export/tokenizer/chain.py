"""Turn normaliser and pre-tokenizer of a tokenizer.json into steps; other nodes are refused by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer import code_points
from omnidraft.export.tokenizer.code_points import Members
from omnidraft.export.tokenizer.instructions import Code, instructions
from omnidraft.export.tokenizer.regex import Choice, CodePoint, Node, Repeat, literal, parse_regex
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_CLASSES,
    MOST_PROGRAMS,
    MOST_STEPS,
    MOST_STRING,
    SplitBehaviour,
    StepOp,
)

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_BEHAVIOURS = {
    "Removed": SplitBehaviour.REMOVED,
    "Isolated": SplitBehaviour.ISOLATED,
    "MergedWithPrevious": SplitBehaviour.MERGED_WITH_PREVIOUS,
    "MergedWithNext": SplitBehaviour.MERGED_WITH_NEXT,
    "Contiguous": SplitBehaviour.CONTIGUOUS,
}


@dataclass
class Chain:
    """Steps, and what they refer to, as the file will hold them."""

    steps: list[tuple[int, int, int, int]] = field(default_factory=list)  # (op, a, b, c)
    strings: list[str] = field(default_factory=list)  # that steps and added tokens name by their index
    programs: list[Code] = field(default_factory=list)  # that steps name by their index
    classes: list[Members] = field(default_factory=list)  # members of each class
    _class_numbers: dict[bytes, int] = field(default_factory=dict)

    def step(self, op: StepOp, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Append a step."""
        self.steps.append((int(op), a, b, c))
        if len(self.steps) > MOST_STEPS:
            raise TokenizerError(f"more than {MOST_STEPS} steps are not supported")

    def string(self, text: str) -> int:
        """The index of a string."""
        if len(text.encode()) > MOST_STRING:
            raise TokenizerError(f"a string of more than {MOST_STRING} bytes is not supported")
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def code_class(self, members: Members) -> int:
        """The number of a class; equal classes have one number."""
        number = self._class_numbers.setdefault(members.tobytes(), len(self.classes))
        if number == len(self.classes):
            self.classes.append(members)
        if len(self.classes) > MOST_CLASSES:
            raise TokenizerError(f"more than {MOST_CLASSES} classes of code points are not supported")
        return number

    def program(self, node: Node, members: Callable[[CodePoint], Members] | None = None) -> int:
        """The index of the program of an expression."""
        look_up = members or _members_of
        code = instructions(node, lambda each: self.code_class(look_up(each)))
        if code not in self.programs:
            self.programs.append(code)
        if len(self.programs) > MOST_PROGRAMS:
            raise TokenizerError(f"more than {MOST_PROGRAMS} regular expressions are not supported")
        return self.programs.index(code)

    def split(self, node: Node, behaviour: SplitBehaviour, *, invert: bool = False) -> None:
        """Append a step that cuts words."""
        self.step(StepOp.SPLIT, self.program(node), behaviour, int(invert))

    def split_class(self, members: Members, behaviour: SplitBehaviour) -> None:
        """Append a step that cuts words at the members of a class."""
        self.step(StepOp.SPLIT, self.program(CodePoint(""), lambda _: members), behaviour)


Add = Callable[[Chain, dict[str, Any]], None]  # appends the steps of a node


def _members_of(each: CodePoint) -> Members:
    plain = each.single and not each.pattern.startswith("(?i:")
    return code_points.only(each.single) if plain else code_points.matched(each.pattern)


def add_normaliser(chain: Chain, node: dict[str, Any] | None) -> None:
    """Append the steps of a normaliser."""
    _add(chain, node, "normaliser", "normalizers", _NORMALISERS)


def add_pre_tokenizer(chain: Chain, node: dict[str, Any] | None) -> None:
    """Append the steps of a pre-tokenizer."""
    _add(chain, node, "pre-tokenizer", "pretokenizers", _PRE_TOKENIZERS)


def _add(chain: Chain, node: dict[str, Any] | None, role: str, parts: str, kinds: dict[str, Add]) -> None:
    """Append the steps of a node, or of the nodes of a sequence.

    Args:
        node: None has no steps.
    """
    if node is None:
        return
    kind = node["type"]
    if kind == "Sequence":
        for each in node[parts]:
            _add(chain, each, role, parts, kinds)
    elif kind in kinds:
        kinds[kind](chain, node)
    else:
        raise TokenizerError(f"the {role} {kind} is not supported")


def _add_replace(chain: Chain, node: dict[str, Any]) -> None:
    content, pattern = chain.string(node["content"]), node["pattern"]
    if "String" not in pattern:
        chain.step(StepOp.REPLACE_MATCHES, chain.program(parse_regex(pattern["Regex"])), content)
    elif pattern["String"]:
        chain.step(StepOp.REPLACE, chain.string(pattern["String"]), content)


def _add_split(chain: Chain, node: dict[str, Any]) -> None:
    pattern = node["pattern"]
    if pattern.get("String") == "":  # the library finds nothing then, and one word stays one word
        return
    tree = literal(pattern["String"]) if "String" in pattern else parse_regex(pattern["Regex"])
    chain.split(tree, _behaviour(node), invert=bool(node.get("invert")))


def _add_byte_level(chain: Chain, node: dict[str, Any]) -> None:
    if any(step[0] == StepOp.BYTES for step in chain.steps):
        raise TokenizerError("a second pre-tokenizer ByteLevel is not supported")
    if node.get("add_prefix_space", True):
        chain.step(StepOp.PREFIX, chain.string(" "))
    if node.get("use_regex", True):
        chain.split(parse_regex(GPT2), SplitBehaviour.ISOLATED)
    chain.step(StepOp.BYTES)


def _add_digits(chain: Chain, node: dict[str, Any]) -> None:
    behaviour = SplitBehaviour.ISOLATED if node.get("individual_digits") else SplitBehaviour.CONTIGUOUS
    chain.split_class(code_points.numeric(), behaviour)


def _add_whitespace(chain: Chain, node: dict[str, Any]) -> None:
    """`\\w+|[^\\w\\s]+`, where only matches are kept."""
    words, space = code_points.word_letters(), code_points.white_space()
    others = code_points.only("a") | True
    others = others & ~words & ~space
    others[0xD800:0xE000] = False
    members = {"word": words, "other": others}
    tree = Choice((Repeat(CodePoint("word"), 1, None), Repeat(CodePoint("other"), 1, None)))
    program = chain.program(tree, lambda each: members[each.pattern])
    chain.step(StepOp.SPLIT, program, SplitBehaviour.REMOVED, 1)


def _add_metaspace(chain: Chain, node: dict[str, Any]) -> None:
    letter, scheme = node.get("replacement", "\u2581"), node.get("prepend_scheme", "always")
    if "prepend_scheme" not in node and node.get("add_prefix_space") is False:
        scheme = "never"
    chain.step(StepOp.SUBSTITUTE, chain.string(" "), chain.string(letter))
    if scheme == "first" and any(step[0] == StepOp.SPLIT for step in chain.steps):
        raise TokenizerError(
            "the pre-tokenizer Metaspace with prepend_scheme first, after a split, is not supported"
        )
    if scheme != "never":
        chain.step(StepOp.PREFIX_FIRST if scheme == "first" else StepOp.PREFIX, chain.string(letter))
    if node.get("split", True):
        chain.split(literal(letter), SplitBehaviour.MERGED_WITH_NEXT)


_NORMALISERS: dict[str, Add] = {
    "NFC": lambda chain, _: chain.step(StepOp.NFC, chain.code_class(code_points.normalised())),
    "Prepend": lambda chain, node: chain.step(StepOp.PREPEND, chain.string(node["prepend"])),
    "Replace": _add_replace,
}
_PRE_TOKENIZERS: dict[str, Add] = {
    "Split": _add_split,
    "ByteLevel": _add_byte_level,
    "Digits": _add_digits,
    "Punctuation": lambda chain, node: chain.split_class(code_points.punctuation(), _behaviour(node)),
    "Whitespace": _add_whitespace,
    "WhitespaceSplit": lambda chain, _: chain.split_class(code_points.white_space(), SplitBehaviour.REMOVED),
    "Metaspace": _add_metaspace,
}


def _behaviour(node: dict[str, Any]) -> SplitBehaviour:
    name = node.get("behavior", "Isolated")
    if name not in _BEHAVIOURS:
        raise TokenizerError(f"the behaviour {name!r:.80} of a split is not supported")
    return _BEHAVIOURS[name]
