"""Read the file of a compiled tokenizer: it is mapped, not copied, and every number in it is checked.

Faults and bounds: spec/02-tokenizer.md. A wrong *order* of pieces is not looked for: it gives other ids and
nothing worse.
"""

import mmap
import struct
from itertools import accumulate, pairwise
from operator import mul
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from omnidraft.errors import TokenizerError
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.vocab.code_point_program import Program, make_program
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_BYTE_TOKENS,
    MOST_CLASSES,
    MOST_CODE,
    MOST_GROWTH,
    MOST_IDS,
    MOST_MERGES,
    MOST_PROGRAM,
    MOST_PROGRAMS,
    MOST_STEPS,
    MOST_STRING,
    MOST_STRINGS,
    MOST_TOKENIZER_BYTES,
    MOST_WORK,
    SECTIONS,
    SECTIONS_START,
    TOKENIZER_VERSION,
    AddedFlag,
    SplitBehaviour,
    StepOp,
    TokenRole,
)
from omnidraft.runtime.vocab.tokenizer_tables import (
    HEADER,
    KINDS,
    MAGIC,
    NONE,
    NORMALISERS,
    TABLE,
    AddedToken,
    TextStep,
    TokenizerTables,
)

_VERSION_END = len(MAGIC) + 4
_HEXADECIMAL = b"0123456789ABCDEFabcdef"
Table = npt.NDArray[Any]
Sections = dict[str, memoryview]


def open_tokenizer_file(path: Path) -> TokenizerTables:
    """Map a file into memory and check it.

    Raises:
        TokenizerError: the file cannot be read, or it is refused.
    """
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
    except OSError as error:
        raise TokenizerError(f"{path} cannot be read ({error.strerror})", fault="unreadable") from None
    try:
        return read_tokenizer_file(data)
    except TokenizerError as error:
        remedy = "run `omnidraft export` again"
        raise TokenizerError(f"{path} is refused: {error.message}", remedy, error.fault) from None


def read_tokenizer_file(data: memoryview) -> TokenizerTables:
    """Check the bytes of a file.

    Raises:
        TokenizerError: they are refused; `fault` names why.
    """
    sections = _sections(data)
    _, _, _, fingerprint, ids, kind, flags, unknown, bos, words, classes, zero = HEADER.unpack_from(data)
    _check_ids(sections, ids)
    _check_merges(sections, ids)
    _check_classes(sections, classes)
    sound = kind < len(KINDS) and flags < 8 and zero == 0
    _require(
        sound and all(NONE <= each < ids for each in (unknown, bos)) and NONE <= words < classes,
        "header",
        "a number of its header is out of range",
    )
    strings = _strings(sections)
    added, steps = _added(sections["added"], strings, ids, words), _steps(sections, strings, classes, kind)
    growth, work = growth_and_work(steps, added)
    _require(growth <= MOST_GROWTH, "step", f"its steps make a text over {MOST_GROWTH} times longer")
    _require(work <= MOST_WORK, "step", f"it takes {work} units of work for a byte of text, of {MOST_WORK}")
    return TokenizerTables(
        fingerprint=fingerprint.hex(),
        kind=KINDS[kind],
        flags=flags,
        unknown_id=unknown,
        bos_id=bos,
        word_class=words,
        offsets=sections["offsets"].cast("I"),
        text=sections["text"],
        roles=sections["roles"],
        sorted_ids=sections["sorted"].cast("I"),
        merge_keys=sections["merge_keys"].cast("Q"),
        merge_values=sections["merge_values"].cast("I"),
        byte_ids=sections["byte_ids"].cast("i"),
        model_bytes=sections["model_bytes"].cast("i"),
        added=added,
        ranges=sections["ranges"].cast("I"),
        masks=sections["masks"].cast("Q"),
        steps=steps,
    )


def _refuse(fault: str, sentence: str) -> NoReturn:
    raise TokenizerError(sentence, fault=fault)


def _require(holds: bool, fault: str, sentence: str) -> None:
    if not holds:
        _refuse(fault, sentence)


def _sections(data: memoryview) -> Sections:
    """The sections by name; each begins at the first multiple of 8 behind the one before it."""
    _require(
        bytes(data[: len(MAGIC)]) == MAGIC,
        "not_a_tokenizer",
        "it is not a compiled tokenizer",
    )
    _require(len(data) >= _VERSION_END, "truncated", f"it has {len(data)} bytes")
    version = int.from_bytes(data[len(MAGIC) : _VERSION_END], "little")
    if version != TOKENIZER_VERSION:
        _refuse("version", f"it has version {version} and this omnidraft reads version {TOKENIZER_VERSION}")
    _require(
        len(data) >= SECTIONS_START,
        "truncated",
        f"it has {len(data)} bytes and a header has {SECTIONS_START}",
    )
    _, _, count, *_ = HEADER.unpack_from(data)
    _require(
        count == len(SECTIONS), "header", f"it has {count} sections, and a tokenizer has {len(SECTIONS)}"
    )
    _require(len(data) <= MOST_TOKENIZER_BYTES, "header", f"it has more than {MOST_TOKENIZER_BYTES} bytes")
    table, end, sections = TABLE.unpack_from(data, HEADER.size), SECTIONS_START, {}
    for at, (name, width) in enumerate(SECTIONS.items()):
        start, size = table[2 * at : 2 * at + 2]
        _require(start == end and size % width == 0, "layout", f"its section {name} is not where it must be")
        _require(start + size <= len(data), "truncated", f"its section {name} ends behind its last byte")
        sections[name], end = data[start : start + size], start + size + -size % 8
    _require(len(data) >= end, "truncated", f"it has {len(data)} bytes of {end}")
    _require(len(data) == end, "layout", f"it has {len(data)} bytes and its sections need {end}")
    return sections


def _table(section: memoryview, kind: str) -> Table:
    return np.frombuffer(section, kind)


def _ascends(values: Table) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _below(values: Table, ids: int) -> bool:
    return not len(values) or int(values.max()) < ids


def _offsets_fit(offsets: Table, size: int) -> bool:
    """Whether offsets go from 0 to `size` and never descend."""
    return bool(
        len(offsets) and offsets[0] == 0 and offsets[-1] == size and (offsets[1:] >= offsets[:-1]).all()
    )


def _check_ids(sections: Sections, ids: int) -> None:
    """The tables with an entry for each id."""
    offsets, roles = _table(sections["offsets"], "<u4"), _table(sections["roles"], "u1")
    _require(0 < ids <= MOST_IDS, "header", f"it has {ids} ids")
    _require(len(offsets) == ids + 1 and len(roles) == ids, "layout", "a table has another number of ids")
    _require(_offsets_fit(offsets, len(sections["text"])), "offset", "the offsets of its ids do not ascend")
    _require(_below(roles, len(TokenRole)), "role", "an id has an unknown role")
    tokens = np.flatnonzero(roles == TokenRole.BYTE)
    _require(len(tokens) <= MOST_BYTE_TOKENS, "role", f"it has {len(tokens)} byte tokens")
    for token in tokens.tolist():
        text = bytes(sections["text"][int(offsets[token]) : int(offsets[token + 1])])
        form = len(text) == 6 and text[:3] == b"<0x" and text[5:] == b">"
        _require(
            form and all(digit in _HEXADECIMAL for digit in text[3:5]), "role", f"{token} is not a byte token"
        )
    _require(_below(_table(sections["sorted"], "<u4"), ids), "id", "a piece has an id that is too large")
    for name in ("byte_ids", "model_bytes"):
        table = _table(sections[name], "<i4")
        _require(len(table) == 256, "layout", f"its section {name} has {len(table)} entries of 256")
        _require(table.min() >= NONE and _below(table, ids), "id", "a byte has an id that does not exist")


def _check_merges(sections: Sections, ids: int) -> None:
    keys, values = _table(sections["merge_keys"], "<u8"), _table(sections["merge_values"], "<u4")
    _require(len(values) == 2 * len(keys) <= 2 * MOST_MERGES, "layout", "its merges have two lengths")
    _require(_ascends(keys), "merges", "its merges do not ascend")
    parts = _table(sections["merge_keys"], "<u4")
    _require(_below(parts, ids) and _below(values[1::2], ids), "id", "a merge has an id that is too large")


def _check_classes(sections: Sections, classes: int) -> None:
    """The ranges of code points, and masks without bits of other classes."""
    ranges, masks = _table(sections["ranges"], "<u4"), _table(sections["masks"], "<u8")
    _require(
        len(ranges) == len(masks) > 0 and ranges[0] == 0 and _ascends(ranges) and _below(ranges, 0x110000),
        "classes",
        "its ranges of code points do not ascend from 0",
    )
    bits = int(np.bitwise_or.reduce(masks)).bit_length()
    _require(bits <= classes <= MOST_CLASSES, "classes", f"it has {classes} classes of code points")


def _strings(sections: Sections) -> list[str]:
    offsets, data = _table(sections["string_offsets"], "<u4"), bytes(sections["strings"])
    _require(
        _offsets_fit(offsets, len(data)) and len(offsets) <= MOST_STRINGS + 1,
        "strings",
        "the offsets of its strings do not ascend",
    )
    _require(_below(np.diff(offsets), MOST_STRING + 1), "strings", f"a string has over {MOST_STRING} bytes")
    ends = offsets.tolist()
    try:
        return [data[start:end].decode() for start, end in pairwise(ends)]
    except UnicodeDecodeError:
        _refuse("strings", "a string is not UTF-8")


def _added(section: memoryview, strings: list[str], ids: int, words: int) -> tuple[AddedToken, ...]:
    tokens = []
    for token, flags, index in struct.iter_unpack("<3I", section):
        _require(token < ids, "id", f"an added token has the id {token} of {ids}")
        _require(index < len(strings) and flags < 32, "added", f"added token {token} has unknown fields")
        word = flags & AddedFlag.SINGLE_WORD and not flags & AddedFlag.CONTROL
        _require(strings[index] != "", "added", f"added token {token} has no content")
        _require(not word or words != NONE, "added", f"added token {token} needs a class of words")
        tokens.append(AddedToken(token, strings[index], flags))
    return tuple(tokens)


def _programs(sections: Sections, classes: int) -> list[Program]:
    code: list[tuple[int, int, int]] = list(struct.iter_unpack("<3I", sections["code"]))
    places = list(struct.iter_unpack("<2I", sections["programs"]))
    _require(len(code) <= MOST_CODE and len(places) <= MOST_PROGRAMS, "program", "its programs are too large")
    programs = []
    for start, size in places:
        _require(start + size <= len(code) and size <= MOST_PROGRAM, "program", "a program is out of bounds")
        try:
            programs.append(make_program(code[start : start + size], classes))
        except ValueError as error:
            _refuse("program", f"a program is refused, since {error}")
    return programs


def _steps(sections: Sections, strings: list[str], classes: int, kind: int) -> tuple[TextStep, ...]:
    """The steps: those of the normaliser first, and BYTES once in a byte-level tokenizer and in no other."""
    programs = _programs(sections, classes)
    records = list(struct.iter_unpack("<4I", sections["steps"]))
    _require(len(records) <= MOST_STEPS, "step", f"it has {len(records)} steps")
    steps = tuple(_step(record, strings, programs, classes) for record in records)
    normalises = [step.op in NORMALISERS for step in steps]
    _require(normalises == sorted(normalises, reverse=True), "step", "the normaliser is not in front")
    _require(
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
    _require(number in StepOp.__members__.values(), "step", f"{number} is not a step")
    op = StepOp(number)
    if op is StepOp.NFC:
        _require(a < classes, "step", "a step names a class that does not exist")
        return TextStep(op, code_class=a)
    if op in (StepOp.REPLACE_MATCHES, StepOp.SPLIT):
        _require(a < len(programs), "step", "a step names a program that does not exist")
    if op is StepOp.SPLIT:
        _require(b < len(SplitBehaviour) and c < 2, "step", "a split has an unknown behaviour")
        return TextStep(op, program=programs[a], behaviour=SplitBehaviour(b), invert=bool(c))
    used = {StepOp.PREPEND: [a], StepOp.PREFIX: [a], StepOp.PREFIX_FIRST: [a], StepOp.BYTES: []}.get(
        op, [a, b]
    )
    if op is StepOp.REPLACE_MATCHES:
        used = [b]
    _require(all(each < len(strings) for each in used), "step", "a step names a string that does not exist")
    texts = tuple(strings[each] for each in used)
    searched = op in (StepOp.REPLACE, StepOp.SUBSTITUTE, StepOp.PREFIX, StepOp.PREFIX_FIRST)
    _require(not searched or texts[0] != "", "step", "a step looks for an empty string")
    return TextStep(op, texts, program=programs[a] if op is StepOp.REPLACE_MATCHES else None)
