"""Vectors of `tokenizer` and `tokenizer/invalid`: compiled files with the ids that they give, and faults."""

import struct
from collections.abc import Callable
from typing import Any

from vectorlib.compiled.file import Compiled, fingerprint_of
from vectorlib.compiled.file import write as file_of
from vectorlib.compiled.kinds import kinds, of_tokenize
from vectorlib.compiled.oracle import Oracle
from vectorlib.reference.tokenizer import SPACE
from vectorlib.writer import VectorWriter, vector

# name, why, text
TEXTS: list[tuple[str, str, str]] = [
    ("words", "words, each with the space before it", "hello world hello"),
    ("empty", "no text has no ids, not even a dummy prefix", ""),
    ("space", "one space", " "),
    ("spaces", "the last of several spaces belongs to the word", "a   hello    "),
    ("contractions", "contractions in both cases, and U+017F where case is ignored",
     "don't DON'T he's HE'S o'\u017f I'Ll"),
    ("digits", "one, three or all digits together", "100 1000 12345 7"),
    ("other_digits", "digits that are not ASCII", "1\u06632 \u2167 \u00bd \u00b2\u00b3 x\u00b9"),
    ("line_ends", "\\r\\n is one run of white space", "a\r\n\r\nb \r\n  c\n"),
    ("tabs", "tabs and line ends of other kinds", "\thello\x0b\x0c\x85 x\u2028y"),
    ("no_break_space", "U+00A0 is white space", "hello\u00a0world\u00a0\u00a0snow \u00a0"),
    ("wide_spaces", "U+2003, U+3000 and U+1680 are white space, U+200B and U+FEFF are not",
     "a\u2003\u3000b\u1680c\u200bd\ufeffhello \ufeff"),
    ("not_white", "U+001C to U+001F are not white space", "a\x1c\x1d b\x1e\x1f"),
    ("marks", "combining marks: composed and ordered where the tokenizer has NFC",
     "he\u0301llo a\u0323\u0301 a\u0301\u0323 \u212b \u0301x"),
    ("hangul", "jamo compose to a syllable where the tokenizer has NFC", "\u1100\u1161 \uac00"),
    ("cjk", "CJK without spaces", "你好你 好\u3072\u30abhello"),
    ("astral", "code points above U+FFFF", "\U0001f600\U0001d11e \U00020000x"),
    ("signs", "signs, and line ends behind them", "!!! hello!!\n\n(100) a-b_c \u2014\u2019s"),
    ("controls", "control strings in a text are text", "<|end|> <s>hello</s> <unk>"),
    ("block", "U+2581 in a text", f"a{SPACE}b {SPACE} {SPACE}{SPACE}"),
    ("merges", "of two pairs with a rank the lower rank is joined first, of equal ranks the leftmost",
     "hhelloo snowworld 100100 ooooo lllll"),
    ("no_pieces", "characters that no piece has", "\x00\u00ff\u0100 zq\u00e9"),
    ("added", "added tokens: longest first, single words, white space around them",
     "snowmansnow X XX aX  Q  Qq Q"),
]  # fmt: skip
SPELL: list[tuple[str, str, bytes]] = [
    ("fragment", "a fragment has no dummy prefix", b"hello"),
    ("spaces", "spaces of a fragment", b"  hello "),
    ("stray", "bytes that are not UTF-8", b"\xc3hello\xff\xfe"),
    ("block", "U+2581 is written with its bytes", f"a{SPACE}b".encode()),
    ("not_normalised", "a fragment is not normalised", "e\u0301".encode()),
    ("added", "added tokens are not read in a fragment", b"snowman X"),
    ("unwritable", "bytes that some vocabularies cannot write", "hello \u4f60!\u00e9".encode()),
]


# name, why, prefix, suffix; the text between is "hello", with a space on both sides
CONTROLS: list[tuple[str, str, str, str]] = [
    ("longest", "of two control tokens the longer one", "<a><b><a>", "<a><a><b>"),
    ("left", "a control token that removes white space before it, of all kinds", "x \u00a0\n<l>",
     "\u2003<l> y"),
    ("right", "a control token that removes white space behind it, of all kinds", "<r>",
     "z<r> \u00a0\u3000y"),
    ("not_white", "U+001C and U+200B are not white space", "x\x1c<l>", "<r>\x1c y<r>\u200b <r>"),
    ("both", "between two of them nothing is left", "<r> \t <l>", "<r>\u1680<l>"),
    ("form", "an added token of the form [...] is a control token, whatever its flag says", "[F]", "[F][F"),
    ("cut", "the beginning of a control token is text", "<a", "<a><b <l"),
]  # fmt: skip


def write_file(writer: VectorWriter, name: str, compiled: Compiled) -> None:
    writer.file(f"tokenizer/{name}.bin", file_of(compiled))


def write_vectors(writer: VectorWriter, name: str, compiled: Compiled) -> None:
    oracle, given = Oracle(compiled), {"file": f"{name}.bin"}
    tokens = [None if data is None else data.hex() for data in oracle.tokens]
    expect: dict[str, Any] = {"bytes": tokens, "fingerprint": fingerprint_of(compiled)}
    vectors = [vector(f"{name}_bytes", "the bytes of each id", given, expect)]
    for case, why, text in TEXTS:
        vectors.append(vector(f"{name}_{case}", why, {**given, "text": text}, {"ids": oracle.encode(text)}))
    for case, why, data in SPELL:
        ids = oracle.spell(data)
        vectors.append(vector(f"{name}_spell_{case}", why, {**given, "spell": data.hex()}, {"ids": ids}))
    mark = "<s>" if compiled.kind else "<|end|>"
    for goes_on, why in (
        (False, "the first text has the dummy prefix"),
        (True, "text behind an answer has none"),
    ):
        parts = {
            "prefix": f"he{mark}hello",
            "text": f" world{mark}",
            "suffix": f" {mark}\r\n",
            "goes_on": goes_on,
        }
        ids = oracle.prompt(parts["prefix"], parts["text"], parts["suffix"], goes_on=goes_on)  # type: ignore[arg-type]
        vectors.append(
            vector(f"{name}_prompt_{'later' if goes_on else 'first'}", why, {**given, **parts}, {"ids": ids})
        )
    if name == "controls":
        for case, why, prefix, suffix in CONTROLS:
            ids = oracle.with_controls(f"{prefix} hello {suffix}")
            parts = {"prefix": prefix, "text": " hello ", "suffix": suffix, "goes_on": False}
            vectors.append(vector(f"{name}_template_{case}", why, {**given, **parts}, {"ids": ids}))
    writer.vectors("tokenizer", name, vectors)


def write(writer: VectorWriter) -> None:
    every = kinds()
    for name, compiled in of_tokenize().items():
        writer.file(f"tokenize/{name}.tokenizer.bin", file_of(compiled))
    for name, compiled in every.items():
        write_file(writer, name, compiled)
        write_vectors(writer, name, compiled)
    _write_invalid(writer, file_of(every["gpt2"]), file_of(every["added"]))


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


def _write_invalid(writer: VectorWriter, plain: bytes, added: bytes) -> None:
    vectors = []
    for data, cases in ((plain, INVALID), (added, INVALID_ADDED)):
        for name, fault, why, change in cases:
            assert change(data) != data, name
            writer.file(f"tokenizer/invalid/{name}.bin", change(data))
            vectors.append(vector(name, why, {"file": f"{name}.bin"}, {"fault": fault}))
    longer = Compiled(kinds()["gemma"].spec, 1).on_strings(3, " ", SPACE * 100)
    writer.file("tokenizer/invalid/growth.bin", file_of(longer))
    why = "a replacement that makes a text 100 times longer"
    vectors.append(vector("growth", why, {"file": "growth.bin"}, {"fault": "step"}))
    writer.vectors("tokenizer/invalid", "files", vectors)
