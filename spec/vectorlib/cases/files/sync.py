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
ADAPTER, CACHE = f"{'11' * 32} 4096", f"{'22' * 32} 196"
NOW = "2026-03-01T12:00:00Z"
OURS, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes.fromhex(r[0])) for r in RFC_8032[:2])
PUBLIC = OURS.public_key().public_bytes_raw()
RELEASE = {
    "number": "7", **CHANNEL, "created": "2026-02-01T08:30:00Z", "expires": "2026-08-01T00:00:00Z",
    "adapter": ADAPTER, "cache": CACHE, "accepted": "51234", "devices": "3",
}  # fmt: skip
PUSH = {
    "device": "phone-1", **CHANNEL, "created": "2026-02-01T08:30:00Z", "accepted": "300",
    "adapter": ADAPTER, "cache": CACHE,
}  # fmt: skip


def lines(title: str, fields: dict[str, str], *more: str) -> bytes:
    return "".join(f"{line}\n" for line in (title, *(f"{k} {v}" for k, v in fields.items()), *more)).encode()


def release(**changes: str) -> bytes:
    return lines("omnidraft.release 1", RELEASE | changes)


def signed(text: bytes, key: Ed25519PrivateKey = OURS) -> bytes:
    return file_of(key.public_key().public_bytes_raw(), key.sign(text)) + text


def seen(text: bytes) -> dict[str, Any]:
    number = int(text.split(b"\n")[1].split()[1])
    return {"number": number, "sha256": hashlib.sha256(text).hexdigest()}


def write(writer: VectorWriter) -> None:
    writer.vectors("sync/release", "valid", _valid())
    writer.vectors("sync/release", "invalid", _invalid())
    writer.vectors("sync/push", "pushes", _pushes())
    writer.vectors("sync/compare", "figures", _acceptances() + _intervals())


def _checked(name: str, why: str, file: bytes, fault: str | None, **others: Any) -> dict[str, Any]:
    given = {"public_key": PUBLIC.hex(), "channel": CHANNEL, "seen": None, "now": NOW} | others
    return vector(name, why, {**given, "file": file.hex()}, {"fault": fault})


def _valid() -> list[dict[str, Any]]:
    text = release()
    channel = hashlib.sha256("".join(f"{k} {v}\n" for k, v in CHANNEL.items()).encode()).hexdigest()
    written = {
        "seed": RFC_8032[0][0], "number": 7, "channel": CHANNEL, "created": RELEASE["created"],
        "expires": RELEASE["expires"], "adapter": {"sha256": "11" * 32, "bytes": 4096},
        "cache": {"sha256": "22" * 32, "bytes": 196}, "accepted": 51234, "devices": 3,
    }  # fmt: skip
    bare = written | {"cache": None, "accepted": 0, "devices": 0, "number": 1}
    bare_text = release(number="1", cache="none", accepted="0", devices="0")
    top = release(number="9" * 15, adapter=f"{'11' * 32} {1 << 28}")
    return [
        vector("written", "the worked example of spec/15-sync.md", written,
               {"channel_id": channel, "file": signed(text).hex()}),
        vector("written_bare", "a trained adapter alone: no cache, no tokens, no devices", bare,
               {"channel_id": channel, "file": signed(bare_text).hex()}),
        _checked("right", "the worked example, by a device that saw no release", signed(text), None),
        _checked("newer", "a device that saw an earlier release", signed(text), None,
                 seen=seen(release(number="6"))),
        _checked("again", "the same release again", signed(text), None, seen=seen(text)),
        _checked("last_second", "valid up to and including that second", signed(text), None,
                 now=RELEASE["expires"]),
        _checked("largest", "the largest number, and the largest file", signed(top), None),
        _checked("cache_alone", "n-grams without an adapter", signed(release(adapter="none")), None),
        _checked("unchecked", "no public key: the signature is not checked, everything else is",
                 signed(text, OTHER), None, public_key=None),
    ]  # fmt: skip


def _invalid() -> list[dict[str, Any]]:
    text, good = release(), signed(release())
    signature = OURS.sign(text)
    twin = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    older = {"number": 8, "sha256": "33" * 32}
    vectors = [
        _checked("empty", "no bytes", b"", "malformed"),
        _checked("cut_signature", "the signature is cut", good[:199], "malformed"),
        _checked("signature_alone", "a signature without a text", good[:200], "wrong_signature"),
        _checked("too_large", "2,049 bytes", good + b"\n" * (2049 - len(good)), "too_large"),
        _checked("changed", "one digit of the signed text changed", good.replace(b"number 7", b"number 9"),
                 "wrong_signature"),
        _checked("cut", "the last byte is missing", good[:-1], "wrong_signature"),
        _checked("longer", "a newline more", good + b"\n", "wrong_signature"),
        _checked("other_key", "signed with another key, under that key's id",
                 signed(text, OTHER), "other_key"),
        _checked("other_key_hidden", "signed with another key under our key's id",
                 file_of(PUBLIC, OTHER.sign(text)) + text, "wrong_signature"),
        _checked("twin", "S + L instead of S", file_of(PUBLIC, twin) + text, "wrong_signature"),
        _checked("older", "a smaller number than the device saw", good, "older", seen=older),
        _checked("conflict", "another release with the number that the device saw", good, "conflict",
                 seen={"number": 7, "sha256": "33" * 32}),
        _checked("expired", "one second too late", good, "expired", now="2026-08-01T00:00:01Z"),
        _checked("older_and_expired", "the first fault is named", good, "older", seen=older,
                 now="2027-01-01T00:00:00Z"),
        _checked("foreign_and_older", "the first fault is named", signed(release(base="cc" * 32)), "foreign",
                 seen=older),
        _checked("manifest", "a signed bundle manifest is not a release", signed(b'{\n  "version": 1\n}\n'),
                 "not_a_release"),
        _checked("push", "a push is not a release", signed(lines("omnidraft.push 1", PUSH)), "not_a_release"),
        _checked("version_2", "a later format", signed(text.replace(b"release 1", b"release 2")), "version"),
        _checked("version_01", "another way to write 1", signed(text.replace(b"release 1", b"release 01")),
                 "version"),
        _checked("no_newline", "the first line has no end", signed(b"omnidraft.release 1"), "malformed"),
    ]  # fmt: skip
    vectors += [
        _checked(f"foreign_{name}", f"another {name}", signed(release(**{name: "cc" * 32})), "foreign")
        for name in CHANNEL
    ]
    spoiled = _not_canonical(text)
    vectors += [
        _checked(name, "the signature is right, the text is not canonical", signed(data), "malformed")
        for name, data in spoiled.items()
    ]
    huge = release(cache=f"{'22' * 32} {(1 << 28) + 1}")
    vectors.append(_checked("cache_too_large", "a file above 256 MiB", signed(huge), "too_large"))
    return vectors


def _not_canonical(text: bytes) -> dict[str, bytes]:
    """Texts that are not written as the specification says."""
    return {
        "number_0": release(number="0"),
        "number_01": release(number="01"),
        "number_minus": release(number="-1"),
        "number_16_digits": release(number="1" + "0" * 15),
        "number_arabic": release(number="\u0667"),
        "hash_short": release(base="aa" * 31),
        "hash_upper": release(base="AA" * 32),
        "created_local": release(created="2026-02-01T08:30:00+01:00"),
        "created_month_13": release(created="2026-13-01T08:30:00Z"),
        "expires_never": release(expires="never"),
        "expires_24h": release(expires="2026-08-01T24:00:00Z"),
        "adapter_no_size": release(adapter="11" * 32),
        "adapter_size_0": release(adapter=f"{'11' * 32} 0"),
        "adapter_two_spaces": release(adapter=f"{'11' * 32}  5"),
        "adapter_path": release(adapter="../../x 5"),
        "nothing": release(adapter="none", cache="none"),
        "devices_absent": text.replace(b"devices 3\n", b""),
        "line_more": text + b"note hello\n",
        "line_empty": text + b"\n",
        "lines_turned": text.replace(b"accepted 51234\ndevices 3\n", b"devices 3\naccepted 51234\n"),
        "line_ends": text.replace(b"\n", b"\r\n").replace(b"1\r\n", b"1\n", 1),
        "zero_byte": text.replace(b"devices 3", b"devices\x003"),
        "not_ascii": text.replace(b"devices 3", b"devices \xff"),
    }


def _pushes() -> list[dict[str, Any]]:
    def segment(number: int, byte: str = "44") -> str:
        return f"trace trace-{number:010d}.odt {byte * 32} 5000"

    right = {
        "right": ("an adapter and a cache", lines("omnidraft.push 1", PUSH)),
        "traces": ("traces alone", lines("omnidraft.push 1", PUSH | {"adapter": "none", "cache": "none"},
                                         segment(1), segment(2))),
        "nothing": ("a device that sent no files: not a fault",
                    lines("omnidraft.push 1", PUSH | {"adapter": "none", "cache": "none"})),
        "longest_name": ("64 characters", lines("omnidraft.push 1", PUSH | {"device": "a" * 64})),
    }  # fmt: skip
    text = lines("omnidraft.push 1", PUSH)
    wrong = {
        "empty": ("no bytes", b"", "not_a_push"),
        "release": ("a release is not a push", release(), "not_a_push"),
        "version_2": ("a later format", text.replace(b"push 1", b"push 2"), "version"),
        "cut": ("the last byte is missing", text[:-1], "malformed"),
        "longer": ("one byte more", text + b"x", "malformed"),
        "device_empty": ("no name", lines("omnidraft.push 1", PUSH | {"device": ""}), "malformed"),
        "device_path": ("a name that is a path", lines("omnidraft.push 1", PUSH | {"device": "../x"}),
                        "malformed"),
        "device_hidden": ("a name that begins with a dot", lines("omnidraft.push 1", PUSH | {"device": ".x"}),
                          "malformed"),
        "device_65": ("65 characters", lines("omnidraft.push 1", PUSH | {"device": "a" * 65}), "malformed"),
        "traces_turned": ("segments descend", lines("omnidraft.push 1", PUSH, segment(2), segment(1)),
                          "malformed"),
        "trace_twice": ("a segment twice", lines("omnidraft.push 1", PUSH, segment(1), segment(1, "55")),
                        "malformed"),
        "trace_name": ("not the name of a segment", text + f"trace secrets.txt {'44' * 32} 5\n".encode(),
                       "malformed"),
        "trace_before": ("a segment before the other lines",
                         text.replace(b"created", f"{segment(1)}\ncreated".encode()), "malformed"),
        "huge": ("a segment above 256 MiB",
                 text + f"trace trace-0000000001.odt {'44' * 32} 268435457\n".encode(), "too_large"),
    }  # fmt: skip
    return [vector(n, why, {"file": data.hex()}, {"fault": None}) for n, (why, data) in right.items()] + [
        vector(n, why, {"file": data.hex()}, {"fault": fault}) for n, (why, data, fault) in wrong.items()
    ]


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
