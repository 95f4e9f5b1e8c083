"""Vectors of `bundle`: manifests with a fault before the fields: in their text, or in their seal."""

import hashlib
import json
from collections.abc import Iterator

from vectorlib.cases.manifests.manifests import (
    BASE,
    BODY,
    MOST_BYTES,
    MOST_DEPTH,
    WHOLE,
    Case,
    bundle_vector,
    made,
    nested,
    padded,
    put,
)
from vectorlib.reference.manifest import body_of, sealed
from vectorlib.writer import VectorWriter


def write(writer: VectorWriter) -> None:
    for topic, cases in (("text", _text()), ("seal", _seal())):
        writer.vectors("bundle", topic, [bundle_vector(*case) for case in cases])


def _text() -> Iterator[Case]:
    def bad(name: str, why: str, data: bytes, fault: str = "unreadable") -> Case:
        return name, why, fault, data, {}

    yield "no_manifest", "a directory without a manifest", "no_bundle", WHOLE, {"manifest.json": None}
    yield bad("empty", "no bytes", b"")
    yield bad("cut", "cut in the middle", WHOLE[: len(WHOLE) // 2])
    yield bad("too_large", f"a file of {MOST_BYTES + 1:,} bytes", padded(MOST_BYTES + 1))
    yield bad("not_utf8", "a byte that is not UTF-8", WHOLE.replace(b"Qwen2", b"Ll\xffma", 1))
    yield bad("utf8_long", "a slash in two bytes is not UTF-8", WHOLE.replace(b"Qwen2", b"Ll\xc0\xafma", 1))
    yield bad("utf8_surrogate", "half a pair is not UTF-8", WHOLE.replace(b"Qwen2", b"\xed\xa0\x80", 1))
    yield bad("byte_order_mark", "a byte order mark", b"\xef\xbb\xbf" + WHOLE)
    yield bad("deep", "brackets that are never closed", b"[" * 3000)
    yield bad("too_deep", f"{MOST_DEPTH + 1} brackets inside each other", made(nested(MOST_DEPTH)))
    deep = b'{"a":' * 100 + b"1" + b"}" * 100
    yield bad("too_deep_objects", "100 objects inside each other", deep)
    brackets = body_of({**BASE, "later": "[" * 100 + '"' + "{" * 100})
    yield "brackets_in_text", "brackets in a string are not counted", None, sealed(brackets), {}
    for name, why, text in (
        ("half_pair", "half a surrogate pair by an escape", '"\\ud83d"'),
        ("pair_turned", "the halves of a surrogate pair in the wrong order", '"\\ude80\\ud83d"'),
        ("control_character", "a newline inside a string", '"a\nb"'),
        ("bad_escape", "an escape that JSON does not have", '"\\x41"'),
        ("short_escape", "three digits", '"\\u041"'),
        ("single_quotes", "quotation marks of another kind", "'a'"),
        ("nan", "NaN is not JSON", "NaN"),
        ("infinity", "Infinity is not JSON", "-Infinity"),
        ("too_large_number", "a number that no binary64 holds", "1e999"),
        ("number_of_33", "a number of 33 characters", "0." + "1" * 31),
        ("integer_of_33", "an integer of 33 digits", "1" * 33),
        ("leading_zero", "a number that begins with 0", "01"),
        ("plus", "a number with a plus sign", "+1"),
        ("no_fraction", "a point without a digit after it", "1."),
        ("no_integer", "a point without a digit before it", ".5"),
        ("hexadecimal", "a number in hexadecimal digits", "0x10"),
        ("comma_array", "a comma before the end of an array", "[1,]"),
        ("comment", "a comment", "1/* one */"),
        ("upper_true", "True is not JSON", "True"),
        ("space_of_unicode", "U+00A0 is not white space in JSON", "\u00a01"),
        ("twice_inside", "a name twice in an object", '{"a":1,"a":1}'),
        ("twice_escaped", "a name twice, once with an escape", '{"a":1,"\\u0061":2}'),
    ):
        yield bad(name, why, sealed(BODY[:-1] + f',"later":{text}}}'))
    yield bad("comma_object", "a comma before the end of an object", sealed(BODY[:-1] + ",}"))
    yield bad("name_twice", "the field format twice", sealed(BODY[:-1] + ',"format":"omnidraft.bundle"}'))
    yield bad("seal_twice", "the seal twice", sealed(BODY[:-1] + ',"seal":""}'))
    yield bad("text_after", "text after the object", sealed(BODY + " 1"))
    yield bad("object_after", "another object after the first", sealed(BODY + "{}"))
    yield bad("zero_after", "a zero byte at the end", sealed(BODY + "\0"))
    yield bad("list", "JSON, but not an object", b"[1]", "not_a_bundle")
    yield bad("null", "null", b"null", "not_a_bundle")
    yield bad("other_format", "another format", made(lambda m: m.update(format="other")), "not_a_bundle")
    yield bad("no_format", "the format is missing", made(lambda m: m.pop("format")), "not_a_bundle")
    for version in (0, 1, 2, 4, "3", 3.0, None, True):
        name = f"version_{version}".replace(".", "_").lower() + ("_text" if version == "3" else "")
        yield bad(name, "another version", made(put(["version"], version)), "version")
    old = {**BASE, "version": 1, "seal": "5e" * 32}
    yield bad("version_1_form", "version 1 had the seal elsewhere", body_of(old).encode(), "version")


def _seal() -> Iterator[Case]:
    digits, rest = WHOLE[10:74], WHOLE[74:]
    cases = [
        ("no_seal", "the seal is missing", BODY.encode()),
        ("seal_last", "the seal is the last field", f'{BODY[:-1]},"seal":"{digits.decode()}"}}'.encode()),
        ("seal_without_space", "no space after the colon", WHOLE.replace(b'{"seal": "', b'{"seal":"', 1)),
        ("seal_two_spaces", "two spaces after the colon", WHOLE.replace(b'{"seal": "', b'{"seal":  "', 1)),
        ("seal_after_newline", "a newline after the bracket", b"{\n" + WHOLE[1:]),
        ("seal_after_space", "a space before the bracket", b" " + WHOLE),
        ("seal_space_after", "a space before the comma", _sealed_with(b'" ,' + rest[2:])),
        ("seal_upper", "digits in upper case", WHOLE[:10] + digits.upper() + rest),
        ("seal_short", "63 digits", WHOLE[:73] + rest),
        ("seal_long", "65 digits", WHOLE[:74] + b"0" + rest),
        ("seal_other", "one digit changed", WHOLE[:73] + (b"1" if digits[-1:] == b"0" else b"0") + rest),
        ("flipped", "one letter was changed after sealing", WHOLE.replace(b"Qwen", b"Qven", 1)),
        ("printed_again", "the same values, printed with other spaces", _printed_again()),
        ("newline_more", "a newline at the end, after sealing", WHOLE + b"\n"),
        ("seal_of_all", "the seal of all bytes, with zeros in its place", _seal_of(WHOLE[:10] + b"0" * 64)),
        ("seal_of_object", "the seal of the object without the field", _seal_of(b"{", 2)),
        ("seal_after_quote", "the seal without the closing quotation mark", _seal_of(b"", 1)),
    ]  # fmt: skip
    for name, why, data in cases:
        yield name, why, "seal", data, {}


def _sealed_with(rest: bytes) -> bytes:
    """A file with a right seal over any bytes."""
    return b'{"seal": "' + hashlib.sha256(rest).hexdigest().encode() + rest


def _printed_again() -> bytes:
    return WHOLE[:74] + b'",' + json.dumps(BASE)[1:].encode()


def _seal_of(start: bytes, skip: int = 0) -> bytes:
    """A seal over other bytes than the rule says."""
    return WHOLE[:10] + hashlib.sha256(start + WHOLE[74 + skip :]).hexdigest().encode() + WHOLE[74:]
