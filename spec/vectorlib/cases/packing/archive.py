"""Vectors of `archive/valid` and `archive/invalid`: archives of one small bundle, and each fault of one."""

import io
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from vectorlib.cases.files.signing import MANIFEST as OTHER
from vectorlib.cases.files.signing import RFC_8032, file_of
from vectorlib.cases.manifests.manifests import BASE, FILES, FULL, full, made, put
from vectorlib.reference.files.archive import (
    ALIGNMENT,
    Part,
    address_of,
    archive_of,
    begins,
    edits_of,
    held,
    index_bytes,
    index_of,
    runs_of,
)
from vectorlib.writer import VectorWriter, vector

SEALED = made(full)
LEFT_OUT = {name: ["desktop"] for name in FILES if "tokenizer.json" in name or "template" in name}
LEFT_OUT |= {name: ["android-qnn"] for name in FILES if "/npu/" in name}
LEFT_OUT |= {name: [] for name in FILES if name.endswith(".compiled")}
INDEX = index_of(SEALED, left_out=LEFT_OUT)
Index = dict[str, Any]
Bad = tuple[str, str, str, bytes]  # name, why, fault, archive


def parts_of(index: Index, *, signature: bytes | None = None, sealed: bytes = SEALED) -> list[Part]:
    """The entries of an archive of the bundle with an index."""
    signed = [] if signature is None else [Part("manifest.sig", signature)]
    files = [Part(name, name.encode()) for name in held(FILES, index)]
    return [Part("manifest.json", sealed), *signed, Part("pack.json", index_bytes(index)), *files]


PARTS = parts_of(INDEX)
PHONE = archive_of(PARTS)
LAST = len(PARTS) - 1


def write(writer: VectorWriter) -> None:
    writer.table("archive/phone.json", {"runs": runs_of(PHONE)})
    writer.vectors("archive/valid", "archives", list(_valid()))
    bad = [*_headers(), *_names(), *_directory(), *_entries(), *_contents()]
    writer.vectors(
        "archive/invalid", "archives", [vector(n, why, _given(data), {"fault": f}) for n, why, f, data in bad]
    )


def _given(data: bytes) -> dict[str, Any]:
    return {"base": "phone", "edits": edits_of(PHONE, data)}


def _valid_cases() -> Iterator[tuple[str, str, list[Part], Index]]:
    signature = file_of(bytes.fromhex(RFC_8032[0][1]), bytes(64))
    yield "phone", "tokenizer.json, template and other graphs are left out", PARTS, INDEX
    yield "signed", "a signature follows the manifest", parts_of(INDEX, signature=signature), INDEX
    without, only = ({**INDEX, "drafter": drafter} for drafter in ("without", "only"))
    yield "drafter_without", "the drafter is in another archive", parts_of(without), without
    yield "drafter_only", "the drafter alone, with the manifest of one of its bundles", parts_of(only), only
    whole = index_of(SEALED, device="desktop")
    yield "whole", "nothing is left out", parts_of(whole), whole


def _valid() -> Iterator[dict[str, Any]]:
    for name, why, parts, index in _valid_cases():
        data = archive_of(parts)
        with zipfile.ZipFile(io.BytesIO(data)) as file:  # another reader of ZIP files
            assert file.testzip() is None and file.namelist() == [part.name for part in parts]
        assert all(at % ALIGNMENT == 0 for at in begins(parts))
        entries = [[p.name, at, len(p.data)] for p, at in zip(parts, begins(parts), strict=True)]
        expect = {
            "entries": entries, "device": index["device"], "drafter": index["drafter"],
            "left_out": index["left_out"], "address": address_of(BASE["files"]),
        }  # fmt: skip
        yield vector(name, why, _given(data), expect)


def _with(number: int, **changes: Any) -> bytes:
    """The archive with another entry."""
    parts = list(PARTS)
    parts[number] = replace(parts[number], **changes)
    return archive_of(parts)


def _headers() -> Iterator[Bad]:
    """The headers before the files."""
    yield "empty", "no bytes", "truncated", b""
    yield "magic_half", "cut inside the first four bytes", "truncated", PHONE[:3]
    yield "other_file", "a PNG", "not_an_archive", b"\x89PNG\r\n\x1a\n" + bytes(100)
    yield "before", "a byte before the archive", "not_an_archive", b"\0" + PHONE
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)
    yield "no_entries", "an empty ZIP file", "not_an_archive", end
    yield "header_cut", "cut inside a header", "truncated", PHONE[:20]
    yield "name_cut", "cut inside a name", "truncated", PHONE[:36]
    yield "extra_cut", "cut inside the padding", "truncated", PHONE[:1000]
    yield "file_cut", "cut inside a file", "truncated", PHONE[: begins(PARTS)[LAST] + 1]
    yield "between", "a byte between two entries", "header", _between()
    for name, bit in (("encrypted", 0), ("encrypted_strong", 6), ("encrypted_directory", 13)):
        yield name, f"flag {bit}", "encrypted", _with(LAST, local={"flags": 1 << bit})
    yield (
        "descriptor",
        "flag 3: sizes and checksum are behind the file",
        "descriptor",
        _with(LAST, local={"flags": 8}),
    )
    for method in (8, 93, 65_535):
        yield f"method_{method}", "a compressed entry", "compressed", _with(LAST, local={"method": method})
    length = len(PARTS[LAST].data)
    yield "two_sizes", "the two sizes differ", "header", _with(LAST, local={"length": length + 1})
    for name, changes in (
        ("utf8_flag", {"flags": 1 << 11}), ("version", {"version": 20}), ("time", {"time": 1}),
        ("date", {"date": 0}),
    ):  # fmt: skip
        yield name, "a field has one value", "header", _with(LAST, local=changes)
    huge = {"size": 0xFFFFFFFE, "length": 0xFFFFFFFE}
    yield "size_huge", "4 GiB that the archive does not have", "truncated", _with(LAST, local=huge)
    full_size = {"size": 0xFFFFFFFF, "length": 0xFFFFFFFF}
    yield "zip64_missing", "a size of 2^32 - 1 without its field", "zip64", _with(LAST, local=full_size)
    head = PARTS[LAST].head(0)[30 + len(PARTS[LAST].name) :]
    for name, why, sizes, local in (
        ("zip64_small", "a zip64 field that is not needed", (length, length), {}),
        ("zip64_below", "a zip64 field with a size that 32 bits hold", (length, length), full_size),
        ("zip64_two", "a zip64 field with two sizes", (1 << 32, 1 << 33), full_size),
        ("zip64_huge", "a size of 2^63", (1 << 63, 1 << 63), full_size),
    ):
        extra = struct.pack("<HHQQ", 1, 16, *sizes) + head[20:]
        yield name, why, "zip64", _with(LAST, local=local, extra=extra)
    yield (
        "zip64_most",
        "4 GiB that the archive does not have",
        "alignment",
        _with(LAST, local=full_size, extra=struct.pack("<HHQQ", 1, 16, 1 << 32, 1 << 32) + head),
    )
    yield from _alignments()


def _alignments() -> Iterator[Bad]:
    right = PARTS[0].head(0)[30 + len(PARTS[0].name) :]
    for name, why, extra in (
        ("no_padding", "no extra field", b""),
        ("padding_short", "one zero less", struct.pack("<HHH", 0xD935, len(right) - 5, ALIGNMENT)
         + right[7:]),
        ("padding_long", "16,384 zeros more", struct.pack("<HHH", 0xD935, len(right) - 4 + ALIGNMENT,
         ALIGNMENT) + right[6:] + bytes(ALIGNMENT)),
        ("padding_bytes", "the padding holds other bytes", right[:-1] + b"\1"),
        ("padding_kind", "an extra field of another kind", b"\x36\xd9" + right[2:]),
        ("padding_4096", "another alignment", right[:4] + struct.pack("<H", 4096) + right[6:]),
        ("padding_two", "two extra fields", right[:2] + struct.pack("<H", len(right) - 8) + right[4:-4]
         + struct.pack("<HH", 0xCAFE, 0)),
    ):  # fmt: skip
        yield name, why, "alignment", _with(0, extra=extra)


def _between() -> bytes:
    """The archive with a byte behind the first file."""
    at = begins(PARTS)[0] + len(PARTS[0].data)
    return PHONE[:at] + b"\0" + PHONE[at:]


def _names() -> Iterator[Bad]:
    for name, why, text in (
        ("absolute", "an absolute path", "/etc/passwd"),
        ("above", "a directory above", "../x"),
        ("above_inside", "a directory above, inside", "a/../../x"),
        ("here", "a part that is a dot", "./x"),
        ("backslash", "a separator of Windows", "a\\b"),
        ("drive", "a drive of Windows", "C:x"),
        ("hidden", "a name that begins with a dot", "a/.x"),
        ("empty_part", "two slashes", "a//b"),
        ("directory", "a directory", "a/"),
        ("space", "a space", "a b"),
        ("not_ascii", "a letter beyond ASCII", "\u00e4"),
        ("zero_byte", "a zero byte", "a\0b"),
        ("newline", "a newline at the end", "a\n"),
        ("no_name", "a name of no bytes", ""),
        ("name_513", "a name of 513 bytes", "x" * 513),
    ):
        yield name, why, "outside", _with(LAST, name=text)
    for text in ("con", "NUL", "aux.bin", "a/Prn.tar.gz", "COM1", "lpt9.x/y", "com0", "a.", "a./b", "b/a.."):
        why = "a name that Windows keeps for a device, or writes without its last dot"
        yield f"windows_{text.replace('/', '_')}", why, "outside", _with(LAST, name=text)
    for text in ("console", "com10", "nul-1.bin", "a/xaux", "com", "lpt+", "a..b"):
        why = "a name that is like those, and is a file on every system, but none of the bundle"
        yield f"file_{text.replace('/', '_')}", why, "entries", _with(LAST, name=text)
    twice = [*PARTS[:3], PARTS[2], *PARTS[3:]]
    yield "twice", "a name twice", "duplicate", archive_of(twice)
    other = replace(PARTS[LAST], name=PARTS[2].name.upper())
    yield "twice_case", "names that differ in case alone", "duplicate", archive_of([*PARTS, other])
    below = replace(PARTS[LAST], name=f"{PARTS[2].name}/x")
    yield "below_file", "a file in a directory that is a file", "duplicate", archive_of([*PARTS, below])
    above = replace(PARTS[LAST], name=PARTS[3].name.split("/")[0])
    yield "directory_is_file", "a file with the name of a directory", "duplicate", archive_of([*PARTS, above])


def _directory() -> Iterator[Bad]:
    """The directory behind the files."""
    for name, why, changes in (
        ("central_size", "another size than in the header", {"size": 1, "length": 1}),
        ("central_crc", "another checksum than in the header", {"crc": 0}),
        ("central_method", "compressed in the directory alone", {"method": 8}),
        ("central_flags", "encrypted in the directory alone", {"flags": 1}),
        ("central_offset", "an entry that begins in another one", {"offset": 0}),
        ("central_disk", "on another disk", {"disk": 1}),
        ("central_made_by", "made by another system, which has links", {"made_by": 3 << 8 | 10}),
    ):
        yield name, why, "directory", _with(LAST, central=changes)
    yield (
        "central_order",
        "records in another order",
        "directory",
        archive_of(PARTS, [1, 0, *range(2, len(PARTS))]),
    )
    last = PARTS[LAST].name.encode()
    at = PHONE.rindex(last)
    renamed = PHONE[:at] + last[:-1] + b"X" + PHONE[at + len(last) :]
    yield "central_name", "another name than in the header", "directory", renamed
    hidden = archive_of(PARTS, list(range(len(PARTS) - 1)))
    yield "central_fewer", "an entry that the directory does not have", "directory", hidden
    yield "end_cut", "the last byte is missing", "truncated", PHONE[:-1]
    yield (
        "directory_missing",
        "the archive ends with the last file",
        "truncated",
        PHONE[: begins(PARTS)[LAST] + len(PARTS[LAST].data)],
    )
    yield "comment", "a comment at the end", "directory", PHONE[:-2] + b"\1\0x"
    yield "trailing", "a byte behind the end", "trailing_bytes", PHONE + b"\0"
    yield "two_archives", "another archive behind the end", "trailing_bytes", PHONE + PHONE[:64]


def _entries() -> Iterator[Bad]:
    """The entries as a whole."""

    def bad(name: str, why: str, parts: Sequence[Part], fault: str = "entries") -> Bad:
        return name, why, fault, archive_of(parts)

    yield bad("manifest_second", "the first entry is another", [PARTS[1], PARTS[0], *PARTS[2:]])
    yield bad("no_manifest", "no manifest", PARTS[1:])
    yield bad("file_missing", "a file that the index does not leave out is absent", PARTS[:-1])
    yield bad("file_more", "a file that the manifest does not list", [*PARTS, Part("more", b"x")])
    left = Part("target/tokenizer.json", b"target/tokenizer.json")
    yield bad("file_left_out", "a file that the index leaves out", [*PARTS, left])
    yield bad("files_turned", "files in another order", [*PARTS[:2], PARTS[3], PARTS[2], *PARTS[4:]])
    signature = Part("manifest.sig", file_of(bytes.fromhex(RFC_8032[0][1]), bytes(64)))
    yield bad("signature_third", "the signature behind the index", [*PARTS[:2], signature, *PARTS[2:]])
    only = parts_of({**INDEX, "drafter": "only"})
    yield bad("not_only", "an index of a drafter alone, and other files", [*only[:2], *PARTS[2:]])
    yield bad("index_missing", "no pack.json", [PARTS[0], *PARTS[2:]], "index")
    long = replace(PARTS[2], data=PARTS[2].data + b"x")
    yield bad("file_long", "a file that is longer than the manifest says", [*PARTS[:2], long, *PARTS[3:]],
              "size")  # fmt: skip
    empty = replace(PARTS[LAST], data=b"")
    yield bad("file_empty", "an empty file", [*PARTS[:-1], empty], "size")
    signature = Part("manifest.sig", bytes(202))
    yield bad("signature_long", "a signature of 202 bytes", [PARTS[0], signature, *PARTS[1:]], "size")
    spaces = Part("manifest.json", SEALED + b" " * ((1 << 22) + 1 - len(SEALED)))
    yield "manifest_large", "a manifest of more than 4 MiB", "truncated", _sized(spaces)


def _sized(part: Part) -> bytes:
    """The headers of an archive whose first file is large, cut behind them: its size is never read."""
    return archive_of([part])[: begins([part])[0] + 16]


def _contents() -> Iterator[Bad]:
    """The bytes of the entries."""
    last = PARTS[LAST].data
    for number, name in ((0, "manifest"), (1, "index"), (LAST, "file")):
        yield f"{name}_crc", "another CRC-32 in both headers", "checksum", _with(number, local={"crc": 1})
    yield (
        "file_changed",
        "a file with another byte, and its right CRC-32",
        "checksum",
        _with(LAST, data=last[:-1] + b"X"),
    )
    flipped = bytearray(PHONE)
    flipped[begins(PARTS)[LAST]] ^= 1
    yield "file_flipped", "a bit of a file", "checksum", bytes(flipped)
    changed = SEALED.replace(b"Qwen", b"Qven", 1)
    yield "manifest_changed", "a manifest that was changed after sealing", "seal", _with(0, data=changed)
    yield "manifest_other", "a text that is not a manifest", "not_a_bundle", _with(0, data=OTHER.replace(
        b"omnidraft.bundle", b"omnidraft.other_"))  # fmt: skip
    other = made(put(["omnidraft"], "1"), FULL)
    yield "manifest_of_another", "the index belongs to another manifest", "index", _with(0, data=other)
    for name, why, index, fault in (
        ("index_version", "another version", {**INDEX, "version": 2}, "version"),
        ("index_format", "another format", {**INDEX, "format": "omnidraft.bundle"}, "index"),
        ("index_device", "an unknown device", {**INDEX, "device": "toaster"}, "index"),
    ):
        yield name, why, fault, _with(1, data=index_bytes(index))
