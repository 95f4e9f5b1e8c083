"""The rest of a compiled tokenizer: strings, added tokens, programs and steps (spec/02-tokenizer.md)."""

import struct
from itertools import accumulate, pairwise
from operator import mul

import numpy as np

from omnidraft.runtime.vocab.code_point_program import Program, make_program
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_CODE,
    MOST_PROGRAM,
    MOST_PROGRAMS,
    MOST_STEPS,
    MOST_STRING,
    MOST_STRINGS,
    AddedFlag,
    SplitBehaviour,
    StepOp,
)
from omnidraft.runtime.vocab.tokenizer_tables import (
    KINDS,
    NONE,
    NORMALISERS,
    AddedToken,
    Sections,
    TextStep,
    below,
    offsets_fit,
    refuse,
    require,
    table,
)


def strings_of(sections: Sections) -> list[str]:
    """The strings of a file."""
    offsets, data = table(sections["string_offsets"], "<u4"), bytes(sections["strings"])
    require(
        offsets_fit(offsets, len(data)) and len(offsets) <= MOST_STRINGS + 1,
        "strings",
        "the offsets of its strings do not ascend",
    )
    require(below(np.diff(offsets), MOST_STRING + 1), "strings", f"a string has over {MOST_STRING} bytes")
    ends = offsets.tolist()
    try:
        return [data[start:end].decode() for start, end in pairwise(ends)]
    except UnicodeDecodeError:
        refuse("strings", "a string is not UTF-8")


def added_of(section: memoryview, strings: list[str], ids: int, words: int) -> tuple[AddedToken, ...]:
    """The added tokens of a file."""
    tokens = []
    for token, flags, index in struct.iter_unpack("<3I", section):
        require(token < ids, "id", f"an added token has the id {token} of {ids}")
        require(index < len(strings) and flags < 32, "added", f"added token {token} has unknown fields")
        word = flags & AddedFlag.SINGLE_WORD and not flags & AddedFlag.CONTROL
        require(strings[index] != "", "added", f"added token {token} has no content")
        require(not word or words != NONE, "added", f"added token {token} needs a class of words")
        tokens.append(AddedToken(token, strings[index], flags))
    return tuple(tokens)


def _programs(sections: Sections, classes: int) -> list[Program]:
    code: list[tuple[int, int, int]] = list(struct.iter_unpack("<3I", sections["code"]))
    places = list(struct.iter_unpack("<2I", sections["programs"]))
    require(len(code) <= MOST_CODE and len(places) <= MOST_PROGRAMS, "program", "its programs are too large")
    programs = []
    for start, size in places:
        require(start + size <= len(code) and size <= MOST_PROGRAM, "program", "a program is out of bounds")
        try:
            programs.append(make_program(code[start : start + size], classes))
        except ValueError as error:
            refuse("program", f"a program is refused, since {error}")
    return programs


def steps_of(sections: Sections, strings: list[str], classes: int, kind: int) -> tuple[TextStep, ...]:
    """The steps: those of the normaliser first, and BYTES once in a byte-level tokenizer and in no other."""
    programs = _programs(sections, classes)
    records = list(struct.iter_unpack("<4I", sections["steps"]))
    require(len(records) <= MOST_STEPS, "step", f"it has {len(records)} steps")
    steps = tuple(_step(record, strings, programs, classes) for record in records)
    normalises = [step.op in NORMALISERS for step in steps]
    require(normalises == sorted(normalises, reverse=True), "step", "the normaliser is not in front")
    require(
        sum(step.op is StepOp.BYTES for step in steps) == (KINDS[kind] == "byte_level"),
        "step",
        "a step BYTES is missing or one too many",
    )
    return steps


def growth_and_work(steps: tuple[TextStep, ...], added: tuple[AddedToken, ...]) -> tuple[int, int]:
    """How many times longer the steps may make a text, and their units of work for each byte of it."""
    growths = list(accumulate(map(_growth_of, steps), mul, initial=1))  # before each step, and at the end
    longest = max((len(token.content.encode()) for token in added), default=0)
    work = growths[sum(step.op in NORMALISERS for step in steps)] * longest  # added tokens are looked for
    work += sum(growth * _work_of(step) for growth, step in zip(growths, steps, strict=False))
    return growths[-1], work


def _work_of(step: TextStep) -> int:
    """Units of work of a step for each byte of its text."""
    if step.program is not None:
        return step.program.cost
    if step.op in (StepOp.REPLACE, StepOp.SUBSTITUTE, StepOp.PREFIX, StepOp.PREFIX_FIRST):
        return len(step.strings[0].encode())
    return 1


def _growth_of(step: TextStep) -> int:
    """How many times longer a step may make a text, in bytes."""
    sizes = [len(text.encode()) for text in step.strings]
    if step.op in (StepOp.REPLACE, StepOp.SUBSTITUTE):
        return max(1, -(-sizes[1] // sizes[0]))
    if step.op is StepOp.REPLACE_MATCHES:
        return max(1, sizes[0])
    if step.op in (StepOp.PREPEND, StepOp.PREFIX, StepOp.PREFIX_FIRST):
        return 1 + sizes[0]
    return {StepOp.NFC: 3, StepOp.BYTES: 2}.get(step.op, 1)


def _step(record: tuple[int, ...], strings: list[str], programs: list[Program], classes: int) -> TextStep:
    number, a, b, c = record
    require(number in StepOp.__members__.values(), "step", f"{number} is not a step")
    op = StepOp(number)
    if op is StepOp.NFC:
        require(a < classes, "step", "a step names a class that does not exist")
        return TextStep(op, code_class=a)
    if op in (StepOp.REPLACE_MATCHES, StepOp.SPLIT):
        require(a < len(programs), "step", "a step names a program that does not exist")
    if op is StepOp.SPLIT:
        require(b < len(SplitBehaviour) and c < 2, "step", "a split has an unknown behaviour")
        return TextStep(op, program=programs[a], behaviour=SplitBehaviour(b), invert=bool(c))
    used = {
        StepOp.PREPEND: [a], StepOp.PREFIX: [a], StepOp.PREFIX_FIRST: [a], StepOp.REPLACE_MATCHES: [b],
        StepOp.BYTES: [],
    }.get(op, [a, b])  # fmt: skip
    require(all(each < len(strings) for each in used), "step", "a step names a string that does not exist")
    texts = tuple(strings[each] for each in used)
    searched = op in (StepOp.REPLACE, StepOp.SUBSTITUTE, StepOp.PREFIX, StepOp.PREFIX_FIRST)
    require(not searched or texts[0] != "", "step", "a step looks for an empty string")
    return TextStep(op, texts, program=programs[a] if op is StepOp.REPLACE_MATCHES else None)
