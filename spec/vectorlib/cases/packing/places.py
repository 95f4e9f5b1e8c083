"""Vectors of `archive/index`, `archive/address`, `archive/open`: what a directory lacks and where it is."""

import json
from collections.abc import Iterator
from typing import Any

from vectorlib.cases.manifests.manifests import BASE, FILES
from vectorlib.cases.packing.archive import INDEX, LEFT_OUT, SEALED
from vectorlib.reference.files.archive import address_of, held, index_bytes, index_of
from vectorlib.writer import VectorWriter, vector

OWN = [name for name in FILES if not name.startswith("drafter/")]
DRAFTERS = [name for name in FILES if name.startswith("drafter/")]


def write(writer: VectorWriter) -> None:
    writer.vectors("archive/index", "indices", list(_indices()))
    writer.vectors("archive/address", "addresses", list(_addresses()))
    writer.vectors("archive/open", "directories", list(_directories()))


def _indices() -> Iterator[dict[str, Any]]:
    digest = INDEX["manifest"]
    for name, why, index in (
        ("left_out", "some files are left out", INDEX),
        ("nothing", "nothing is left out", index_of(SEALED)),
        ("later", "an unknown field is ignored", {**INDEX, "later": [1]}),
        ("without", "without the drafter", {**INDEX, "drafter": "without"}),
        ("only", "the drafter alone", {**INDEX, "drafter": "only"}),
    ):
        given = {"manifest": digest, "files": list(FILES), "text": index_bytes(index).decode()}
        yield vector(name, why, given, {"holds": held(FILES, index)})
    for name, why, text, fault in _bad_indices():
        given = {"manifest": digest, "files": list(FILES), "text": text}
        yield vector(name, why, given, {"fault": fault})


def _bad_indices() -> Iterator[tuple[str, str, str, str]]:
    for name, why, change in (
        ("no_device", "a field is missing", {"device": None}),
        ("device_unknown", "a device that does not exist", {"device": "desktop "}),
        ("drafter_unknown", "not one of three words", {"drafter": "yes"}),
        ("manifest_short", "63 digits", {"manifest": INDEX["manifest"][1:]}),
        ("manifest_other", "the digest of another manifest", {"manifest": "0" * 64}),
        ("format_other", "another format", {"format": "omnidraft.bundle"}),
        ("left_out_list", "an array in place of the object", {"left_out": list(LEFT_OUT)}),
        ("left_out_unlisted", "a file that the manifest does not list", {"left_out": {"x": []}}),
        ("left_out_device", "an unknown device of a file", {"left_out": {FILES[0]: ["x"]}}),
        ("left_out_text", "a text in place of an array", {"left_out": {FILES[0]: "desktop"}}),
        ("left_out_five", "five devices", {"left_out": {FILES[0]: ["desktop"] * 5}}),
        ("left_out_many", "1,025 names", {"left_out": {f"f{i}": [] for i in range(1025)}}),
        ("version_float", "2.0 is not an integer", {"version": 1.0}),
        ("version_true", "true is not an integer", {"version": True}),
    ):
        yield name, why, json.dumps({**INDEX, **change}), "index"
    for version in (0, 2):
        yield f"version_{version}", "another version", json.dumps({**INDEX, "version": version}), "version"
    yield "empty", "no bytes", "", "index"
    yield "list", "not an object", "[]", "index"
    yield "cut", "cut in the middle", json.dumps(INDEX)[:99], "index"
    yield "twice", "a field twice", json.dumps(INDEX)[:-1] + ', "version": 1}', "index"
    bare = {name: value for name, value in INDEX.items() if name != "left_out"}
    yield "no_left_out", "a field is missing", json.dumps(bare), "index"


def _addresses() -> Iterator[dict[str, Any]]:
    files: dict[str, Any] = BASE["files"]
    changed = {**files, "drafter/tokenizer.json": {"sha256": "0" * 64, "bytes": 1}}
    other = {**files, "target/tokenizer.json": {"sha256": "0" * 64, "bytes": 1}}
    names = {"drafter/Z": files[FILES[0]], "drafter/a": files[FILES[1]], "drafter/\u00e4": files[FILES[2]]}
    for name, why, given in (
        ("bundle", "the files of the small bundle", files),
        ("turned", "the order of the manifest does not matter", dict(reversed(files.items()))),
        ("other_target", "the target's files do not matter", other),
        ("changed", "another drafter", changed),
        ("no_drafter", "a manifest without files of a drafter", {FILES[0]: files[FILES[0]]}),
        ("order", "upper case before lower case, and other letters last: by bytes", names),
        ("similar", "a name that only begins alike", {**files, "drafters/x": files[FILES[0]]}),
    ):
        yield vector(name, why, {"files": given}, {"address": address_of(given)})


def _directories() -> Iterator[dict[str, Any]]:
    text = SEALED.decode()
    kept = [name for name in FILES if name not in LEFT_OUT]
    phone = index_bytes(INDEX).decode()

    def case(
        name: str, why: str, own: list[str], shared: list[str], index: str | None, expect: dict[str, Any]
    ) -> dict[str, Any]:
        given = {"text": text, "own": own, "shared": shared, "index": index}
        return vector(name, why, given, expect)

    def places(own: list[str], shared: list[str]) -> dict[str, Any]:
        found = dict.fromkeys(own, "bundle") | dict.fromkeys(shared, "shared")
        return {"place": {name: found.get(name, "left_out") for name in FILES}}

    yield case("whole", "every file is in the bundle", list(FILES), [], None, places(list(FILES), []))
    yield case("shared", "the drafter is shared", OWN, DRAFTERS, None, places(OWN, DRAFTERS))
    yield case("both", "a bundle with its own drafter reads no other", list(FILES), DRAFTERS, None,
               places(list(FILES), []))  # fmt: skip
    yield case("no_drafter", "the drafter is nowhere", OWN, [], None, {"fault": "missing"})
    yield case("half_shared", "a file of the shared drafter is absent", OWN, DRAFTERS[1:], None,
               {"fault": "missing"})  # fmt: skip
    half = [*OWN, DRAFTERS[0]]
    yield case("half_own", "a bundle with a part of its drafter reads no other", half, DRAFTERS, None,
               {"fault": "missing"})  # fmt: skip
    yield case("packed", "files were left out", kept, [], phone, places(kept, []))
    own, shared = ([n for n in kept if n.startswith("drafter/") == d] for d in (False, True))
    yield case("packed_shared", "files were left out, and the drafter is shared", own, shared, phone,
               places(own, shared))  # fmt: skip
    yield case("left_out_there", "a file that was left out is there: no hash covers it", list(FILES), [],
               phone, {"fault": "index"})  # fmt: skip
    yield case("left_out_one_there", "one of them", [*kept, next(iter(LEFT_OUT))], [], phone,
               {"fault": "index"})  # fmt: skip
    yield case("left_out_shared", "a shared drafter may hold it for another bundle: nothing reads it", own,
               DRAFTERS, phone, places(own, shared))  # fmt: skip
    yield case("not_left_out", "a file that the index does not name is absent", kept[1:], [], phone,
               {"fault": "missing"})  # fmt: skip
    yield case("no_index", "files are absent without an index", kept, [], None, {"fault": "missing"})
    other = index_bytes({**INDEX, "manifest": "0" * 64}).decode()
    yield case("index_of_another", "an index of another manifest", kept, [], other, {"fault": "index"})
    later = index_bytes({**INDEX, "version": 2}).decode()
    yield case("index_later", "an index of a later version", kept, [], later, {"fault": "version"})
