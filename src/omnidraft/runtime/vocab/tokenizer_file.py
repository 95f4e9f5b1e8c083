"""Read the file of a compiled tokenizer: it is mapped, not copied, and every number in it is checked.

Faults and bounds: spec/02-tokenizer.md. A wrong *order* of pieces is not looked for: it gives other ids and
nothing worse.
"""

import mmap
from pathlib import Path

import numpy as np

from omnidraft.errors import TokenizerError, refusing
from omnidraft.runtime.disk.read_file import open_file
from omnidraft.runtime.vocab.tokenizer_format import (
    MOST_BYTE_TOKENS,
    MOST_CLASSES,
    MOST_GROWTH,
    MOST_IDS,
    MOST_MERGES,
    MOST_TOKENIZER_BYTES,
    MOST_WORK,
    SECTIONS,
    SECTIONS_START,
    TOKENIZER_VERSION,
    TokenRole,
)
from omnidraft.runtime.vocab.tokenizer_steps import added_of, growth_and_work, steps_of, strings_of
from omnidraft.runtime.vocab.tokenizer_tables import (
    HEADER,
    KINDS,
    MAGIC,
    NONE,
    TABLE,
    Sections,
    Table,
    TokenizerTables,
    below,
    offsets_fit,
    refuse,
    require,
    table,
)

_VERSION_END = len(MAGIC) + 4
_HEXADECIMAL = b"0123456789ABCDEFabcdef"


def open_tokenizer_file(path: Path) -> TokenizerTables:
    """Map a file into memory and check it.

    Raises:
        TokenizerError: the file cannot be read, or it is refused.
    """
    with refusing(TokenizerError, f"{path} cannot be read", "", "unreadable"), open_file(path) as file:
        size = file.seek(0, 2)
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
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
    require(
        sound and all(NONE <= each < ids for each in (unknown, bos)) and NONE <= words < classes,
        "header",
        "a number of its header is out of range",
    )
    strings = strings_of(sections)
    added, steps = (
        added_of(sections["added"], strings, ids, words),
        steps_of(sections, strings, classes, kind),
    )
    growth, work = growth_and_work(steps, added)
    require(growth <= MOST_GROWTH, "step", f"its steps make a text over {MOST_GROWTH} times longer")
    require(work <= MOST_WORK, "step", f"it takes {work} units of work for a byte of text, of {MOST_WORK}")
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


def _sections(data: memoryview) -> Sections:
    """The sections by name; each begins at the first multiple of 8 behind the one before it."""
    require(bytes(data[: len(MAGIC)]) == MAGIC, "not_a_tokenizer", "it is not a compiled tokenizer")
    require(len(data) >= _VERSION_END, "truncated", f"it has {len(data)} bytes")
    version = int.from_bytes(data[len(MAGIC) : _VERSION_END], "little")
    if version != TOKENIZER_VERSION:
        refuse("version", f"it has version {version} and this omnidraft reads version {TOKENIZER_VERSION}")
    require(
        len(data) >= SECTIONS_START,
        "truncated",
        f"it has {len(data)} bytes and a header has {SECTIONS_START}",
    )
    _, _, count, *_ = HEADER.unpack_from(data)
    require(count == len(SECTIONS), "header", f"it has {count} sections, and a tokenizer has {len(SECTIONS)}")
    require(len(data) <= MOST_TOKENIZER_BYTES, "header", f"it has more than {MOST_TOKENIZER_BYTES} bytes")
    places, end, sections = TABLE.unpack_from(data, HEADER.size), SECTIONS_START, {}
    for at, (name, width) in enumerate(SECTIONS.items()):
        start, size = places[2 * at : 2 * at + 2]
        require(start == end and size % width == 0, "layout", f"its section {name} is not where it must be")
        require(start + size <= len(data), "truncated", f"its section {name} ends behind its last byte")
        sections[name], end = data[start : start + size], start + size + -size % 8
    require(len(data) >= end, "truncated", f"it has {len(data)} bytes of {end}")
    require(len(data) == end, "layout", f"it has {len(data)} bytes and its sections need {end}")
    return sections


def _ascends(values: Table) -> bool:
    return bool((values[1:] > values[:-1]).all())


def _check_ids(sections: Sections, ids: int) -> None:
    """The tables with an entry for each id."""
    offsets, roles = table(sections["offsets"], "<u4"), table(sections["roles"], "u1")
    require(0 < ids <= MOST_IDS, "header", f"it has {ids} ids")
    require(len(offsets) == ids + 1 and len(roles) == ids, "layout", "a table has another number of ids")
    require(offsets_fit(offsets, len(sections["text"])), "offset", "the offsets of its ids do not ascend")
    require(below(roles, len(TokenRole)), "role", "an id has an unknown role")
    tokens = np.flatnonzero(roles == TokenRole.BYTE)
    require(len(tokens) <= MOST_BYTE_TOKENS, "role", f"it has {len(tokens)} byte tokens")
    for token in tokens.tolist():
        text = bytes(sections["text"][int(offsets[token]) : int(offsets[token + 1])])
        form = len(text) == 6 and text[:3] == b"<0x" and text[5:] == b">"
        require(
            form and all(digit in _HEXADECIMAL for digit in text[3:5]), "role", f"{token} is not a byte token"
        )
    require(below(table(sections["sorted"], "<u4"), ids), "id", "a piece has an id that is too large")
    for name in ("byte_ids", "model_bytes"):
        entries = table(sections[name], "<i4")
        require(len(entries) == 256, "layout", f"its section {name} has {len(entries)} entries of 256")
        require(entries.min() >= NONE and below(entries, ids), "id", "a byte has an id that does not exist")


def _check_merges(sections: Sections, ids: int) -> None:
    keys, values = table(sections["merge_keys"], "<u8"), table(sections["merge_values"], "<u4")
    require(len(values) == 2 * len(keys) <= 2 * MOST_MERGES, "layout", "its merges have two lengths")
    require(_ascends(keys), "merges", "its merges do not ascend")
    parts = table(sections["merge_keys"], "<u4")
    require(below(parts, ids) and below(values[1::2], ids), "id", "a merge has an id that is too large")


def _check_classes(sections: Sections, classes: int) -> None:
    """The ranges of code points, and masks without bits of other classes."""
    ranges, masks = table(sections["ranges"], "<u4"), table(sections["masks"], "<u8")
    require(
        len(ranges) == len(masks) > 0 and ranges[0] == 0 and _ascends(ranges) and below(ranges, 0x110000),
        "classes",
        "its ranges of code points do not ascend from 0",
    )
    bits = int(np.bitwise_or.reduce(masks)).bit_length()
    require(bits <= classes <= MOST_CLASSES, "classes", f"it has {classes} classes of code points")
