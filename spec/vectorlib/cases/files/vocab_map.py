"""Vectors of `map/valid` and `map/invalid`: files of vocabulary maps, and the fault of each bad file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from vectorlib.reference.files.safetensors import Table, packed, with_header
from vectorlib.reference.manifest import fingerprint
from vectorlib.reference.vocab_map import MAPS, TOY, VocabMap
from vectorlib.writer import VectorWriter, vector

METADATA = {
    "format": "omnidraft.vocab_map", "version": "1", "draft_fingerprint": "dd" * 32,
    "target_fingerprint": "ee" * 32,
}  # fmt: skip
MOST_HEADER = 1 << 16
MOST_INLINE = 4096  # bytes of a file that is in its vector
Case = tuple[str, str, str, bytes]  # name, why, fault, the file


def write(writer: VectorWriter) -> None:
    valid = []
    for name, why, table, data in _valid():
        writer.file(f"map/valid/{name}.safetensors", data)
        given = {"file": f"{name}.safetensors"}
        valid.append(vector(name, why, given, {"map": table}))
    writer.vectors("map/valid", "files", valid)
    bad = []
    for name, why, fault, data in (*_bytes(), *_headers(), *_tables()):
        given = {"bytes": data.hex()}
        if len(data) > MOST_INLINE:
            writer.file(f"map/invalid/{name}.safetensors", data)
            given = {"file": f"{name}.safetensors"}
        bad.append(vector(name, why, given, {"fault": fault}))
    writer.vectors("map/invalid", "files", bad)
    writer.vectors("map/invalid", "foreign", list(_foreign()))
    writer.vectors("map/fingerprint", "vocabularies", list(_fingerprints()))


def _foreign() -> Iterator[dict[str, Any]]:
    """A map that is right, with models of another vocabulary."""
    ours = {
        "draft_fingerprint": "dd" * 32, "target_fingerprint": "ee" * 32,
        "draft_size": len(TOY.draft), "target_size": len(TOY.target),
    }  # fmt: skip
    others = {"draft_fingerprint": "ab" * 32, "target_fingerprint": "dd" * 31 + "de",
              "draft_size": len(TOY.draft) + 1, "target_size": len(TOY.target) - 1}  # fmt: skip
    for field, value in others.items():
        given = {"file": "../valid/toy.safetensors", "models": {**ours, field: value}}
        why = f"the models have another {field.replace('_', ' ')}"
        yield vector(f"foreign_{field}", why, given, {"fault": "foreign_vocabulary"})


def tables_of(vocab_map: VocabMap) -> dict[str, Table]:
    """The tensors of a map's file."""
    targets, drafts = range(len(vocab_map.target)), range(len(vocab_map.draft))
    rows = {
        "target_byte": [list(vocab_map.bytes_of(t)) for t in targets],
        "spelling": [list(vocab_map.spelling(t)) for t in targets],
        "expansion": [vocab_map.expansion(d) for d in drafts],
    }
    tables: dict[str, Table] = {}
    for name, values in rows.items():
        kind = "U8" if name == "target_byte" else "I32"
        tables[f"{name}s"] = kind, [each for row in values for each in row]
        tables[f"{name}_offsets"] = "I32", list(accumulate(map(len, values), initial=0))
    tables["direct"], tables["leaves"] = ("I32", vocab_map.direct), ("I32", vocab_map.leaves)
    tables["draft_allowed"] = "U8", [int(name not in vocab_map.control) for name in vocab_map.draft]
    return tables


TABLES = tables_of(TOY)
GOOD = packed(METADATA, TABLES)


def _valid() -> Iterator[tuple[str, str, str, bytes]]:
    for name, vocab_map in MAPS.items():
        metadata = {**METADATA, "made_by": "the exporter"}  # another name is ignored
        yield name, f"the map {name} of `maps`", name, packed(metadata, tables_of(vocab_map))
    turned = dict(reversed(TABLES.items()))
    yield "turned", "tensors in another order: offsets say where each one is", "toy", packed(METADATA, turned)
    header = json.dumps(_header(GOOD), indent=1).encode()
    yield "spaced", "a header with white space, and integers without alignment", "toy", with_header(
        header, _data(GOOD))  # fmt: skip
    unaligned = {"draft_allowed": TABLES["draft_allowed"], **TABLES}
    yield "unaligned", "tables of 4 bytes at odd places", "toy", packed(METADATA, unaligned)


def _header(data: bytes) -> Any:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def _data(data: bytes) -> bytes:
    return data[8 + int.from_bytes(data[:8], "little") :]


def _bytes() -> Iterator[Case]:
    yield "empty", "no bytes", "truncated", b""
    yield "seven", "seven bytes", "truncated", GOOD[:7]
    yield "header_half", "cut inside the header", "truncated", GOOD[:100]
    array = GOOD[:8] + b"[" + GOOD[9:100]
    yield "header_half_array", "the first byte of the header is looked at before its end", "not_a_map", array
    yield "last_missing", "cut before the last byte", "truncated", GOOD[:-1]
    yield "tables_missing", "the header alone", "truncated", GOOD[: len(GOOD) - len(_data(GOOD))]
    yield "one_more", "a byte after the last tensor", "trailing_bytes", GOOD + b"\0"
    huge = (1 << 63).to_bytes(8, "little") + GOOD[8:]
    yield "header_huge", "a header of 2^63 bytes: a reader must not reserve them", "not_a_map", huge
    long = with_header(json.dumps({"__metadata__": METADATA}).encode() + b" " * MOST_HEADER, b"")
    yield "header_too_long", f"a header of more than {MOST_HEADER} bytes", "not_a_map", long
    yield "text", "a JSON file", "not_a_map", b'{"format": "omnidraft.vocab_map"}'


def _headers() -> Iterator[Case]:
    entry = _header(GOOD)["direct"]
    data = _data(GOOD)
    text = json.dumps(_header(GOOD), separators=(",", ":")).encode()
    for name, why, header in (
        ("list", "an array", b"[1]"), ("cut_json", "JSON without its end", text[:-1]),
        ("name_twice", "a tensor twice", text[:-1] + b',"direct":' + json.dumps(entry).encode() + b"}"),
        ("not_utf8", "a byte that is not UTF-8", text.replace(b"omnidraft", b"omni\xffraft", 1)),
        ("deep", "arrays inside each other", text[:-1] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        ("text_after", "another object after the header", text + b"{}"),
    ):  # fmt: skip
        yield name, why, "not_a_map", with_header(header, data)
    for name, metadata in (
        ("no_metadata", None), ("other_format", {**METADATA, "format": "other"}),
        ("format_number", {"format": 1}), ("metadata_number", {**METADATA, "later": 1}),
    ):  # fmt: skip
        yield name, "the metadata do not say that it is a map", "not_a_map", packed(metadata, TABLES)
    yield "metadata_list", "an array in place of the metadata", "not_a_map", packed(
        None, TABLES, __metadata__=["format"])  # fmt: skip
    for version in ("0", "2", "1.0", ""):
        data = packed({**METADATA, "version": version}, TABLES)
        yield f"version_{version.replace('.', '_') or 'empty'}", "another version", "version", data
    start, end = entry["data_offsets"]
    for name, why, change in (
        ("no_offsets", "an entry without offsets", {"dtype": "I32", "shape": [9]}),
        ("entry_list", "an entry that is not an object", [start, end]),
        ("entry_more", "an entry with a fourth field", {**entry, "x": 1}),
        ("offsets_float", "an offset of 1.0", {**entry, "data_offsets": [float(start), end]}),
        ("offsets_three", "three offsets", {**entry, "data_offsets": [start, end, end]}),
        ("offsets_negative", "an offset below 0", {**entry, "data_offsets": [-4, 32]}),
        ("offsets_huge", "an offset of 2^53", {**entry, "data_offsets": [1 << 53, (1 << 53) + 36]}),
        ("offsets_turned", "the end before the start", {**entry, "data_offsets": [end, start]}),
        ("overlap", "two tensors share bytes", {**entry, "data_offsets": [start - 4, end - 4]}),
        ("hole", "bytes that belong to no tensor", {**entry, "data_offsets": [start + 4, end + 4]}),
        ("shape_other", "another size than its shape has", {**entry, "shape": [8]}),
        ("shape_negative", "a size below 0", {**entry, "shape": [-3, -3]}),
        ("shape_huge", "sizes whose product has more than 64 bits", {**entry, "shape": [1 << 40, 1 << 40]}),
        ("dtype_unknown", "a type that is not read", {**entry, "dtype": "I5"}),
    ):
        yield name, why, "layout", packed(METADATA, TABLES, direct=change)
    yield "hole_alone", "a byte between two tensors, and everything else is right", "layout", _moved(1)
    yield "overlap_alone", "two tensors share a zero, and everything else is right", "layout", _moved(-1)
    shape = {**entry, "shape": [3, 3]}
    yield "two_dimensions", "a table of two dimensions", "dtype", packed(METADATA, TABLES, direct=shape)
    for name in TABLES:
        rest = {key: value for key, value in TABLES.items() if key != name}
        yield f"no_{name}", "a table is missing", "missing_tensor", packed(METADATA, rest)
        other = "I32" if TABLES[name][0] == "U8" else "F32"
        changed = {**TABLES, name: (other, TABLES[name][1])}
        yield f"type_{name}", f"a table of {other}", "dtype", packed(METADATA, changed)
    yield "one_table_more", "a table that no map has", "extra_tensor", packed(
        METADATA, {**TABLES, "later": ("U8", [1])})  # fmt: skip
    for side in ("draft", "target"):
        for name, value in (("short", "d" * 63), ("upper", "DD" * 32), ("empty", "")):
            metadata = {**METADATA, f"{side}_fingerprint": value}
            yield f"{side}_fingerprint_{name}", "not 64 digits 0-9a-f", "metadata", packed(metadata, TABLES)
    missing = {k: v for k, v in METADATA.items() if k != "draft_fingerprint"}
    yield "fingerprint_missing", "a fingerprint is missing", "metadata", packed(missing, TABLES)


def _moved(by: int) -> bytes:
    """The toy map whose tensors from the spellings' offsets on begin a byte later, or a byte earlier."""
    header, data = _header(GOOD), _data(GOOD)
    at = header["spelling_offsets"]["data_offsets"][0]
    for name, entry in header.items():
        if name != "__metadata__" and entry["data_offsets"][0] >= at:
            entry["data_offsets"] = [place + by for place in entry["data_offsets"]]
    assert data[at - 1] == data[at] == 0, "a shared byte changes no value"
    moved = data[:at] + b"\0" + data[at:] if by > 0 else data[: at - 1] + data[at:]
    return with_header(json.dumps(header, separators=(",", ":")).encode(), moved)


def _with(**changes: Sequence[int]) -> bytes:
    """The toy map with other values in some tables."""
    tables: Mapping[str, Table] = {n: (k, changes.get(n, v)) for n, (k, v) in TABLES.items()}
    return packed(METADATA, tables)


def _put(name: str, at: int, value: int) -> list[int]:
    values = list(TABLES[name][1])
    values[at] = value
    return values


def _tables() -> Iterator[Case]:
    for name in ("target_byte_offsets", "spelling_offsets", "expansion_offsets"):
        offsets = list(TABLES[name][1])
        for fault, values in (
            ("empty", []), ("from_one", _put(name, 0, 1)), ("short_end", _put(name, -1, offsets[-1] - 1)),
            ("past_end", _put(name, -1, offsets[-1] + 1)), ("falls", _put(name, 1, offsets[-1] + 1)),
            ("negative", _put(name, 1, -1)),
        ):  # fmt: skip
            yield f"{name}_{fault}", "the offsets do not fit the values", "offsets", _with(**{name: values})
        row_more = _with(**{name: [*offsets, offsets[-1]]})
        yield f"{name}_row", "a row more than other tables have", "sizes", row_more
    for name in ("direct", "draft_allowed"):
        more = _with(**{name: [*TABLES[name][1], 0]})
        yield f"{name}_row", "a draft token more than other tables have", "sizes", more
    none = _with(direct=[], draft_allowed=[], expansions=[], expansion_offsets=[0])
    yield "no_draft_tokens", "a drafter without tokens", "sizes", none
    drafts, targets = len(TOY.draft), len(TOY.target)
    for name, size in (
        ("spellings", drafts),
        ("expansions", targets),
        ("leaves", targets),
        ("direct", targets),
    ):
        yield f"{name}_beyond", f"an id of {size}", "id_range", _with(**{name: _put(name, 0, size)})
        below = -2 if name == "direct" else -1
        yield f"{name}_below", f"an id of {below}", "id_range", _with(**{name: _put(name, 0, below)})
    yield "allowed_2", "neither 0 nor 1", "id_range", _with(draft_allowed=_put("draft_allowed", 0, 2))
    leaves = TOY.leaves
    yield "leaves_twice", "a leaf twice", "leaves", _with(leaves=[leaves[0], *leaves])
    unspelled = next(t for t in range(targets) if not TOY.spelling(t))
    yield "leaves_unspelled", "a leaf without a spelling", "leaves", _with(leaves=[unspelled, *leaves])
    same = next(i for i, t in enumerate(leaves) if TOY.target[t] == "F") + 1
    yield "leaves_equal", "two leaves with the same spelling", "leaves", _with(
        leaves=[*leaves[:same], *TOY.t("F'"), *leaves[same:]])  # fmt: skip
    yield "leaves_turned", "leaves in falling order", "leaves", _with(leaves=leaves[::-1])
    at = next(i for i in range(len(leaves) - 1) if len(TOY.spelling(leaves[i])) > 1
              and TOY.spelling(leaves[i])[0] == TOY.spelling(leaves[i + 1])[0])  # fmt: skip
    swapped = [*leaves[:at], leaves[at + 1], leaves[at], *leaves[at + 2 :]]
    yield (
        "leaves_swapped",
        "two leaves with the same first draft token in disorder",
        "leaves",
        _with(leaves=swapped),
    )
    draft = next(d for d in range(drafts) if TOY.direct[d] >= 0)
    other = next(t for t in leaves if len(TOY.spelling(t)) > 1)
    yield "direct_longer", "a pair with a token of several draft tokens", "direct", _with(
        direct=_put("direct", draft, other))  # fmt: skip
    gone = [t for t in leaves if t != TOY.direct[draft]]
    yield "direct_no_leaf", "a pair with a token that is no leaf", "direct", _with(leaves=gone)
    last = TOY.spelling(leaves[-1])
    assert len(last) == 1, "the last leaf is a direct pair"
    why = "a pair of the last leaf's draft token with a token that is no leaf"
    yield "direct_no_leaf_last", why, "direct", _with(direct=_put("direct", last[0], unspelled))
    why = "a leaf of one draft token without its pair"
    yield "direct_missing", why, "direct", _with(direct=_put("direct", draft, -1))
    pair = next(d for d in range(drafts) if TOY.direct[d] >= 0 and d != draft)
    yield "direct_crossed", "two pairs are exchanged", "direct", _with(
        direct=[TOY.direct[{draft: pair, pair: draft}.get(d, d)] for d in range(drafts)])  # fmt: skip


def _fingerprints() -> Iterator[dict[str, Any]]:
    cases: list[tuple[str, str, list[bytes | None], dict[int, str]]] = [
        ("none", "a vocabulary without tokens", [], {}),
        ("tokens", "two tokens", [b"a", b"bc"], {}),
        ("empty_and_none", "a token of no bytes is not an id without a token", [b"", None], {}),
        ("controls", "control tokens in the order of their ids, their texts in UTF-8",
         [b"a", None, None], {2: "<é>", 1: "<s>"}),
        ("controls_9_10", "9 comes before 10", [b"a"] * 9 + [None, None], {10: "<b>", 9: "<a>"}),
        ("many", "ids of several digits", [bytes([i % 256]) for i in range(300)] + [None], {300: "</s>"}),
    ]  # fmt: skip
    for name, why, tokens, controls in cases:
        given = {"tokens": [None if t is None else t.hex() for t in tokens],
                 "controls": [[i, text] for i, text in controls.items()]}  # fmt: skip
        yield vector(name, why, given, {"fingerprint": fingerprint(tokens, controls)})
