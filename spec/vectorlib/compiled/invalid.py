"""Vectors of `tokenizer/invalid`: compiled files that a reader refuses, and the faults."""

import struct
from collections.abc import Callable

from vectorlib.compiled.file import Compiled
from vectorlib.compiled.file import write as file_of
from vectorlib.compiled.kinds import kinds
from vectorlib.compiled.work import too_much
from vectorlib.reference.tokenizer import SPACE
from vectorlib.writer import VectorWriter, vector

NAMES = (
    "offsets", "text", "roles", "sorted", "merge_keys", "merge_values", "byte_ids", "model_bytes",
    "string_offsets", "strings", "added", "ranges", "masks", "code", "programs", "steps",
)  # fmt: skip


def _place(data: bytes, section: str) -> tuple[int, int]:
    """Start and length of a section."""
    return struct.unpack_from("<2I", data, 80 + 8 * NAMES.index(section))


def _put(data: bytes, at: int, number: int, form: str = "<I") -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, at, number)
    return bytes(changed)


def _in(data: bytes, section: str, at: int, number: int, form: str = "<I") -> bytes:
    """The file with a number in a section changed; a negative place counts from the section's end."""
    start, length = _place(data, section)
    return _put(data, start + (at if at >= 0 else length + at), number, form)


def _first_split(data: bytes) -> int:
    start, length = _place(data, "code")
    return next(at for at in range(0, length, 12) if struct.unpack_from("<I", data, start + at)[0] == 2)


def _first_jump(data: bytes) -> int:
    start, length = _place(data, "code")
    return next(at for at in range(0, length, 12) if struct.unpack_from("<I", data, start + at)[0] == 3)


# name, fault, why, change
Change = Callable[[bytes], bytes]
INVALID: list[tuple[str, str, str, Change]] = [
    ("magic", "not_a_tokenizer", "another first byte", lambda d: b"X" + d[1:]),
    ("empty", "not_a_tokenizer", "no bytes", lambda d: b""),
    ("json", "not_a_tokenizer", "a tokenizer.json", lambda d: b'{"version": "1.0"}'),
    ("header_half", "truncated", "the header is cut", lambda d: d[:150]),
    ("version_2", "version", "a later version", lambda d: _put(d, 8, 2)),
    ("version_only", "version", "a later version whose header is cut", lambda d: _put(d, 8, 2)[:12]),
    ("magic_only", "truncated", "nothing behind the first 8 bytes", lambda d: d[:8]),
    ("version_0", "version", "an earlier version", lambda d: _put(d, 8, 0)),
    ("sections", "header", "a section too many", lambda d: _put(d, 12, 17)),
    ("kind", "header", "an unknown kind", lambda d: _put(d, 52, 2)),
    ("flags", "header", "an unknown flag of the model", lambda d: _put(d, 56, 8)),
    ("unknown_id", "header", "the unknown token is no id", lambda d: _put(d, 60, 1 << 20)),
    ("bos", "header", "the bos token is below -1", lambda d: _put(d, 64, -2, "<i")),
    ("word_class", "header", "the class of words does not exist", lambda d: _put(d, 68, 63)),
    ("last_word", "header", "the last number of the header is not 0", lambda d: _put(d, 76, 1)),
    ("no_ids", "header", "a vocabulary of no ids", lambda d: _put(d, 48, 0)),
    ("last_byte", "truncated", "the last byte is missing", lambda d: d[:-1]),
    ("byte_more", "layout", "a byte too many", lambda d: d + b"\0"),
    ("hole", "layout", "a section that begins later", lambda d: _put(d, 88, _place(d, "text")[0] + 8)),
    ("odd", "layout", "a section that is not a whole number of entries",
     lambda d: _put(d, 84, _place(d, "offsets")[1] + 1)),
    ("part_of_entry", "layout", "a section with a byte more, in the padding behind it",
     lambda d: _put(d, 84 + 8 * NAMES.index("added"), _place(d, "added")[1] + 1)),
    ("byte_ids_255", "layout", "255 entries for the bytes", lambda d: _put(d, 84 + 8 * 6, 1020)),
    ("model_bytes_255", "layout", "255 pieces for the bytes", lambda d: _put(d, 84 + 8 * 7, 1020)),
    ("ids_many", "header", "more than 2^22 ids", lambda d: _put(d, 48, (1 << 22) + 1)),
    ("classes_65", "classes", "more than 64 classes", lambda d: _put(d, 72, 65)),
    ("ids_other", "layout", "another number of ids than the tables have", lambda d: _put(d, 48, 300)),
    ("offset_falls", "offset", "an offset smaller than the one before it", lambda d: _in(d, "offsets", 8, 0)),
    ("offset_end", "offset", "the last offset is not the end of the text", lambda d: _in(d, "offsets",
     -4, 1 << 30)),
    ("offset_first", "offset", "the first offset is not 0", lambda d: _in(d, "offsets", 0, 1)),
    ("role", "role", "an unknown role", lambda d: _in(d, "roles", 5, 5, "<B")),
    ("byte_token", "role", "a byte token whose text is not <0xNN>", lambda d: _in(d, "roles", 5, 2, "<B")),
    ("sorted_id", "id", "a piece of an id that does not exist", lambda d: _in(d, "sorted", 0, 1 << 20)),
    ("byte_id", "id", "a byte of an id that does not exist", lambda d: _in(d, "byte_ids", 0, 1 << 20)),
    ("model_byte", "id", "a byte of an id below -1", lambda d: _in(d, "model_bytes", 0, -2, "<i")),
    ("merges_unsorted", "merges", "merges that do not ascend", lambda d: _in(d, "merge_keys", 8, 0, "<Q")),
    ("merge_left", "id", "a merge of an id that does not exist", lambda d: _in(d, "merge_keys", -4, 1 << 20)),
    ("merge_result", "id", "a merge to an id that does not exist", lambda d: _in(d, "merge_values",
     4, 1 << 20)),
    ("ranges_first", "classes", "ranges that do not begin at 0", lambda d: _in(d, "ranges", 0, 1)),
    ("ranges_unsorted", "classes", "ranges that do not ascend", lambda d: _in(d, "ranges", 8, 0)),
    ("ranges_end", "classes", "a range above U+10FFFF", lambda d: _in(d, "ranges", -4, 0x110000)),
    ("mask", "classes", "a bit of a class that does not exist", lambda d: _in(d, "masks", 0, 1 << 63, "<Q")),
    ("string_offsets", "strings", "offsets of strings that do not end with the strings",
     lambda d: _in(d, "string_offsets", -4, 99999)),
    ("string_utf8", "strings", "a string that is not UTF-8", lambda d: _in(d, "strings", 0, 0xFF, "<B")),
    ("added_id", "id", "an added token of an id that does not exist", lambda d: _in(d, "added", 0, 1 << 20)),
    ("added_flags", "added", "an unknown flag of an added token", lambda d: _in(d, "added", 4, 32)),
    ("added_string", "added", "an added token of a string that does not exist", lambda d: _in(d, "added",
     8, 9999)),
    ("instruction", "program", "an unknown instruction", lambda d: _in(d, "code", 0, 8)),
    ("split_outside", "program", "a split that leads outside", lambda d: _in(d, "code",
     _first_split(d) + 8, 9999)),
    ("jump_outside", "program", "a jump that leads outside", lambda d: _in(d, "code",
     _first_jump(d) + 4, 9999)),
    ("jump_back", "program", "a jump back to an instruction that is not a split: it might not end",
     lambda d: _in(d, "code", _first_jump(d) + 4, 1)),
    ("class_outside", "program", "a class that does not exist", lambda d: _in(d, "code", 16, 64)),
    ("no_match", "program", "a program that goes on behind its end", lambda d: _in(d, "code", -12, 1)),
    ("program_long", "program", "a program that is longer than the code", lambda d: _in(d, "programs",
     4, 9999)),
    ("step", "step", "an unknown step", lambda d: _in(d, "steps", 0, 10)),
    ("step_program", "step", "a split by a program that does not exist", lambda d: _in(d, "steps", 4, 99)),
    ("step_behaviour", "step", "an unknown behaviour", lambda d: _in(d, "steps", 8, 5)),
    ("step_invert", "step", "an argument that is neither 0 nor 1", lambda d: _in(d, "steps", 12, 2)),
    ("no_bytes", "step", "a byte-level tokenizer without BYTES", lambda d: _in(d, "steps", -16, 5)),
]  # fmt: skip
INVALID_ADDED: list[tuple[str, str, str, Change]] = [
    ("single_word", "added", "a single word, and no class of words", lambda d: _put(d, 68, -1, "<i")),
    ("step_string", "step", "a prefix of a string that does not exist", lambda d: _in(d, "steps", 4, 9999)),
    ("late_normaliser", "step", "a step of the normaliser behind the pre-tokenizer",
     lambda d: _in(d, "steps", 16, 1)),
]  # fmt: skip


def _of_steps() -> list[tuple[str, str, str, bytes]]:
    """Name, fault and why of files that an edit of a few bytes does not give, and the files."""
    spec, level = kinds()["gemma"].spec, kinds()["gpt2"].spec
    wrong = [
        ("replace_empty", "an empty string is replaced", Compiled(spec, 1).on_strings(3, "", "a")),
        ("substitute_empty", "the same in words", Compiled(spec, 1).on_strings(6, "", "a")),
        ("prefix_empty", "a prefix of no characters", Compiled(spec, 1).on_strings(7, "")),
        ("prefix_first_empty", "a first prefix of no characters", Compiled(spec, 1).on_strings(8, "")),
        ("growth", "a replacement that makes a text 100 times longer",
         Compiled(spec, 1).on_strings(3, " ", SPACE * 100)),
        ("bytes_twice", "BYTES twice", Compiled(level, 0).bytes().bytes()),
        ("bytes_of_pieces", "BYTES in a SentencePiece vocabulary", Compiled(spec, 1).bytes()),
    ]  # fmt: skip
    steps = Compiled(spec, 1)
    for _ in range(65):
        steps.on_strings(2, SPACE)
    long = Compiled(spec, 1)
    long.string("a" * 4097)
    no_content = Compiled(spec, 1)
    no_content.string("")
    many = ("steps_65", "65 steps", steps)
    more = [*wrong, many, *too_much(spec, level)]
    data = file_of(no_content)
    return [
        *((name, "step", why, file_of(each)) for name, why, each in more),
        ("string_long", "strings", "a string of 4,097 bytes", file_of(long)),
        ("added_empty", "added", "an added token of no characters", _in(data, "added", 8, 0)),
    ]


def write_invalid(writer: VectorWriter, plain: bytes, added: bytes) -> None:
    vectors = []
    for data, cases in ((plain, INVALID), (added, INVALID_ADDED)):
        for name, fault, why, change in cases:
            assert change(data) != data, name
            writer.file(f"tokenizer/invalid/{name}.bin", change(data))
            vectors.append(vector(name, why, {"file": f"{name}.bin"}, {"fault": fault}))
    for name, fault, why, data in _of_steps():
        writer.file(f"tokenizer/invalid/{name}.bin", data)
        vectors.append(vector(name, why, {"file": f"{name}.bin"}, {"fault": fault}))
    writer.vectors("tokenizer/invalid", "files", vectors)
