"""Vectors of `sync`: releases and pushes, each way to refuse one, and the figures of the comparison."""

import hashlib
import math
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vectorlib.cases.files.signing import RFC_8032, file_of
from vectorlib.reference.ed25519 import ORDER
from vectorlib.writer import VectorWriter, vector

CHANNEL = {
    "base": "aa" * 32,
    "target": "bb" * 32,
    "draft_tokenizer": "dd" * 32,
    "target_tokenizer": "ee" * 32,
}
NOW = "2026-03-01T12:00:00Z"
OURS, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes.fromhex(r[0])) for r in RFC_8032[:2])
PUBLIC = OURS.public_key().public_bytes_raw()
A, C, T = b"an adapter", b"a cache", b"a segment"


def stored(data: bytes) -> str:
    """A file in a record."""
    return f"{hashlib.sha256(data).hexdigest()} {len(data)}"


RECORD = {
    "key": PUBLIC.hex(), **CHANNEL, "number": "7", "expires": "2026-08-01T00:00:00Z", "accepted": "51234",
    "adapter": stored(A), "cache": stored(C),
}  # fmt: skip


def text(kind: str = "release", *traces: bytes, **changes: str) -> bytes:
    """The signed lines of a record."""
    lines = [f"omnidraft.{kind} 1", *(f"{k} {v}" for k, v in (RECORD | changes).items())]
    lines += [f"trace {stored(each)}" for each in traces]
    return "".join(f"{line}\n" for line in (*lines, "")).encode()


def signed(signs: bytes, *files: bytes, key: Ed25519PrivateKey = OURS) -> bytes:
    """A whole file."""
    return file_of(key.public_key().public_bytes_raw(), key.sign(signs)) + signs + b"".join(files)


def seen(signs: bytes) -> dict[str, Any]:
    """What a device keeps of a release."""
    number = int(signs.split(b"\nnumber ")[1].split()[0])
    return {"number": number, "sha256": hashlib.sha256(signs).hexdigest()}


def write(writer: VectorWriter) -> None:
    writer.vectors("sync/record", "valid", _valid())
    writer.vectors("sync/record", "invalid", _invalid() + _badly_written())
    writer.vectors("sync/compare", "figures", _acceptances() + _intervals())


def _checked(name: str, why: str, file: bytes, fault: str | None, **others: Any) -> dict[str, Any]:
    given = {"kind": "release", "public_key": PUBLIC.hex(), "channel": CHANNEL, "seen": None, "now": NOW}
    return vector(name, why, {**given, **others, "file": file.hex()}, {"fault": fault})


def _written(name: str, why: str, kind: str, file: bytes, **contents: Any) -> dict[str, Any]:
    channel = hashlib.sha256("".join(f"{k} {v}\n" for k, v in CHANNEL.items()).encode()).hexdigest()
    given = {"seed": RFC_8032[0][0], "kind": kind, "channel": CHANNEL, "number": 7,
             "expires": RECORD["expires"], "accepted": 51234, "adapter": A.hex(), "cache": C.hex(),
             "traces": [], **contents}  # fmt: skip
    return vector(name, why, given, {"channel_id": channel, "file": file.hex()})


def _valid() -> list[dict[str, Any]]:
    release = text()
    by_device = {"kind": "push", "public_key": None}
    bare = text("push", adapter="none", accepted="0")
    top = text(number="9" * 15, expires="9999-12-31T23:59:59Z")
    return [
        _written("written", "the worked example of spec/15-sync.md", "release", signed(release, A, C)),
        _written("written_push", "n-grams alone", "push", signed(bare, C), adapter=None, accepted=0),
        _written("written_traces", "two segments, in their order", "push",
                 signed(text("push", T, C), A, C, T, C), traces=[T.hex(), C.hex()]),
        _checked("right", "the worked example, by a device that saw no release", signed(release, A, C), None),
        _checked("newer", "a device that saw an earlier release", signed(release, A, C), None,
                 seen=seen(text(number="6"))),
        _checked("again", "the same release again", signed(release, A, C), None, seen=seen(release)),
        _checked("last_second", "valid up to and including that second", signed(release, A, C), None,
                 now=RECORD["expires"]),
        _checked("largest_number", "the largest number and time", signed(top, A, C), None),
        _checked("cache_alone", "n-grams without an adapter", signed(text(adapter="none"), C), None),
        _checked("push", "the key that the push names is the one that counts",
                 signed(text("push"), A, C), None, **by_device),
        _checked("push_of_another", "of another device",
                 signed(text("push", key=OTHER.public_key().public_bytes_raw().hex()), A, C, key=OTHER), None,
                 **by_device),
        _checked("traces_alone", "a push of one segment",
                 signed(text("push", T, adapter="none", cache="none"), T), None, **by_device),
    ]  # fmt: skip


def _invalid() -> list[dict[str, Any]]:
    release = text()
    good = signed(release, A, C)
    signature = OURS.sign(release)
    twin = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    older = {"number": 8, "sha256": "33" * 32}
    by_device = {"kind": "push", "public_key": None}
    other, no_key = OTHER.public_key().public_bytes_raw(), text("push", key="ff" * 32)
    vectors = [
        _checked("empty", "no bytes", b"", "malformed"),
        _checked("cut_signature", "the signature is cut", good[:199], "malformed"),
        _checked("signature_alone", "a signature without a text", good[:200], "other_kind"),
        _checked("changed", "one digit of the signed text changed", good.replace(b"number 7", b"number 9"),
                 "wrong_signature"),
        _checked("other_key", "signed with another key", signed(text(key=other.hex()), A, C, key=OTHER),
                 "other_key"),
        _checked("key_of_another", "the text names our key, another one signed it",
                 signed(release, A, C, key=OTHER), "wrong_signature"),
        _checked("key_hidden", "signed with another key under our key's id",
                 file_of(PUBLIC, OTHER.sign(release)) + release + A + C, "wrong_signature"),
        _checked("push_under_a_key", "a push that names a key which did not sign it",
                 signed(text("push", key=other.hex()), A, C), "wrong_signature", **by_device),
        _checked("no_key", "a key that is no point of the curve",
                 file_of(b"\xff" * 32, OURS.sign(no_key)) + no_key + A + C, "wrong_signature", **by_device),
        _checked("twin", "S + L instead of S", file_of(PUBLIC, twin) + release + A + C, "wrong_signature"),
        _checked("shorter", "the last byte is missing", good[:-1], "size"),
        _checked("longer", "a byte more", good + b"x", "size"),
        _checked("adapter_flipped", "a bit of the adapter changed", signed(release, b"An adapter", C),
                 "checksum"),
        _checked("cache_flipped", "a bit of the cache changed", signed(release, A, b"A cache"), "checksum"),
        _checked("turned", "the files in another order", signed(release, C, A), "checksum"),
        _checked("older", "a smaller number than the device saw", good, "older", seen=older),
        _checked("conflict", "another release with the number that the device saw", good, "conflict",
                 seen={"number": 7, "sha256": "33" * 32}),
        _checked("expired", "one second too late", good, "expired", now="2026-08-01T00:00:01Z"),
        _checked("older_and_expired", "the first fault is named", good, "older", seen=older,
                 now="2027-01-01T00:00:00Z"),
        _checked("foreign_and_older", "the first fault is named", signed(text(base="cc" * 32), A, C),
                 "foreign", seen=older),
        _checked("foreign_and_flipped", "the first fault is named",
                 signed(text(base="cc" * 32), A, b"A cache"), "checksum"),
        _checked("manifest", "a signed bundle manifest is not a release", signed(b'{\n  "version": 1\n}\n'),
                 "other_kind"),
        _checked("push_is_no_release", "a push is not a release", signed(text("push"), A, C), "other_kind"),
        _checked("version_2", "a later format", signed(release.replace(b"release 1", b"release 2"), A, C),
                 "version"),
        _checked("version_01", "another way to write 1",
                 signed(release.replace(b"release 1", b"release 01"), A, C), "version"),
        _checked("traces", "a release has none", signed(text("release", T), A, C, T), "malformed"),
        _checked("too_large", "more than 2^28 bytes",
                 signed(text(cache=f"{'22' * 32} {1 << 28}"), A), "too_large"),
    ]  # fmt: skip
    return vectors + [
        _checked(f"foreign_{name}", f"another {name}", signed(text(**{name: "cc" * 32}), A, C), "foreign")
        for name in CHANNEL
    ]


def _badly_written() -> list[dict[str, Any]]:
    return [
        _checked(name, "the signature is right, the text is not canonical", signed(data, A, C), "malformed")
        for name, data in _not_canonical(text()).items()
    ]


def _not_canonical(right: bytes) -> dict[str, bytes]:
    """Texts that are not written as the specification says."""
    return {
        "number_0": text(number="0"),
        "number_01": text(number="01"),
        "number_minus": text(number="-1"),
        "number_16_digits": text(number="1" + "0" * 15),
        "number_arabic": text(number="\u0667"),
        "key_short": text(key="aa" * 31),
        "hash_short": text(base="aa" * 31),
        "hash_upper": text(base="AA" * 32),
        "expires_local": text(expires="2026-02-01T08:30:00+01:00"),
        "expires_month_13": text(expires="2026-13-01T08:30:00Z"),
        "expires_never": text(expires="never"),
        "expires_24h": text(expires="2026-08-01T24:00:00Z"),
        "adapter_no_size": text(adapter="11" * 32),
        "adapter_size_0": text(adapter=f"{'11' * 32} 0"),
        "adapter_two_spaces": text(adapter=f"{'11' * 32}  5"),
        "adapter_path": text(adapter="../../x 5"),
        "nothing": text(adapter="none", cache="none"),
        "accepted_absent": right.replace(b"accepted 51234\n", b""),
        "line_more": right[:-1] + b"note hello\n\n",
        "end_absent": right[:-1],
        "lines_turned": right.replace(b"\nnumber 7", b"").replace(b"accepted", b"number 7\naccepted"),
        "line_ends": right.replace(b"\n", b"\r\n").replace(b"1\r\n", b"1\n", 1),
        "zero_byte": right.replace(b"accepted 5", b"accepted\x005"),
        "not_ascii": right.replace(b"accepted 5", b"accepted \xff"),
    }


def _acceptances() -> list[dict[str, Any]]:
    def case(name: str, why: str, logits: list[float], allowed: list[int], distribution: dict[str, float],
             other: float, weight: float, inside: bool = False) -> dict[str, Any]:  # fmt: skip
        top = max(x for x, yes in zip(logits, allowed, strict=True) if yes)
        weights = [math.exp(x - top) if yes else 0.0 for x, yes in zip(logits, allowed, strict=True)]
        q = [w / math.fsum(weights) for w in weights]
        listed = math.fsum(q[int(i)] for i in distribution)
        kept = math.fsum(min(q[int(i)], p) for i, p in distribution.items())
        expect = (kept + (min(other, max(0.0, 1.0 - listed)) if inside else 0.0)) * weight
        given = {"logits": logits, "allowed": allowed, "ids": [int(i) for i in distribution],
                 "probabilities": list(distribution.values()), "other": other, "weight": weight,
                 "inside": inside}  # fmt: skip
        return vector(name, why, given, {"acceptance": expect})

    logits, yes = [1.0, 0.5, -2.0, 0.0], [1, 1, 1, 1]
    return [
        case("whole_distribution", "every draft token is listed", logits, yes,
             {"0": 0.25, "1": 0.5, "2": 0.125, "3": 0.125}, 0.0, 1.0),
        case("end", "inside a spelling OTHER is its end, which is one outcome", logits, yes,
             {"1": 0.5}, 0.5, 1.0, True),
        case("rest", "elsewhere OTHER is many tokens and does not count", logits, yes,
             {"1": 0.5}, 0.5, 1.0),
        case("sure", "the target is certain", logits, yes, {"3": 1.0}, 0.0, 1.0),
        case("not_allowed", "a banned draft token has no share", logits, [0, 1, 1, 1],
             {"0": 0.25, "1": 0.75}, 0.0, 1.0),
        case("weight", "the target may emit what the drafter cannot write", logits, yes,
             {"0": 1.0}, 0.0, 0.75),
        case("large", "logits whose exponential overflows", [2000.0, 1999.0, -2000.0, 0.0], yes,
             {"0": 0.5, "1": 0.5}, 0.0, 1.0),
        case("end_alone", "all mass on the end of the spelling", logits, yes, {}, 1.0, 1.0, True),
    ]  # fmt: skip


def _intervals() -> list[dict[str, Any]]:
    def case(name: str, why: str, differences: list[float], counts: list[int]) -> dict[str, Any]:
        groups, whole = len(counts), sum(counts)
        given = {"differences": differences, "counts": counts}
        if groups < 8:
            return vector(name, why, given, {"low": None, "high": None})
        mean = math.fsum(differences) / whole
        squares = math.fsum((d - mean * n) ** 2 for d, n in zip(differences, counts, strict=True))
        error = math.sqrt(squares * groups / (groups - 1)) / whole
        z, v = 1.959963984540054, groups - 1
        t = z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        t += (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        return vector(name, why, given, {"low": mean - t * error, "high": mean + t * error})

    uneven = [0.5, -0.25, 1.0, 2.0, 0.0, 0.75, -0.5, 1.25, 3.0]
    return [
        case("interval", "generations of different lengths", uneven, [10, 5, 20, 40, 1, 15, 10, 25, 30]),
        case(
            "interval_worse",
            "the differences with the other sign",
            [-d for d in uneven],
            [10, 5, 20, 40, 1, 15, 10, 25, 30],
        ),
        case("interval_equal", "no difference anywhere", [0.0] * 8, [3] * 8),
        case("interval_too_few", "seven generations are too few", [1.0] * 7, [2] * 7),
    ]
