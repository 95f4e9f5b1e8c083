"""Vectors of `signing`: the bytes that a signer writes, and each way in which a signature is refused."""

import hashlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vectorlib.reference.ed25519 import (
    BASE,
    EIGHT_Y,
    NEUTRAL,
    ORDER,
    P,
    added,
    challenge,
    encoded,
    of_y,
    secret_scalar,
    signed,
    times,
)
from vectorlib.writer import VectorWriter, vector

# RFC 8032, section 7.1: secret key, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").hexdigest(),
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        "3dca179c138ac17ad9bef1177331a704",
    ),
]
MANIFEST = b'{\n  "format": "omnidraft.bundle",\n  "version": 1\n}\n'


def file_of(public: bytes, signature: bytes) -> bytes:
    key = hashlib.sha256(public).digest()[:8].hex()
    lines = "omnidraft.signature 1", "algorithm ed25519", f"key {key}", f"signature {signature.hex()}"
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def write(writer: VectorWriter) -> None:
    vectors = []
    for i, (seed, public, message, signature) in enumerate(RFC_8032, 1):
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
        assert key.public_key().public_bytes_raw().hex() == public
        assert key.sign(bytes.fromhex(message)).hex() == signature
        vectors.append(
            _signer(f"rfc_8032_{i}", f"test {i} of RFC 8032, section 7.1", seed, bytes.fromhex(message))
        )
    vectors.append(_signer("manifest", "the worked example of spec/10-signing.md", RFC_8032[0][0], MANIFEST))
    long = bytes(range(256)) * 4
    vectors.append(_signer("long", "1,023 bytes, several blocks of SHA-512", RFC_8032[1][0], long[1:]))
    writer.vectors("signing", "signers", vectors)
    writer.vectors("signing", "checks", _checks())
    writer.vectors("signing", "points", _points())


def _signer(name: str, why: str, seed: str, manifest: bytes) -> dict[str, Any]:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    public = key.public_key().public_bytes_raw()
    expect = {
        "key": hashlib.sha256(public).hexdigest()[:16],
        "file": file_of(public, key.sign(manifest)).hex(),
    }
    given = {"seed": seed, "public_key": public.hex(), "manifest": manifest.hex()}
    return vector(name, why, given, expect)


def _checks() -> list[dict[str, Any]]:
    ours, other = (Ed25519PrivateKey.from_private_bytes(bytes.fromhex(r[0])) for r in RFC_8032[:2])
    public, foreign = (key.public_key().public_bytes_raw() for key in (ours, other))
    signature = ours.sign(MANIFEST)
    good = file_of(public, signature)
    flipped = signature[:40] + bytes([signature[40] ^ 1]) + signature[41:]
    scalar = int.from_bytes(signature[32:], "little")
    twin = signature[:32] + (scalar + ORDER).to_bytes(32, "little")
    key_line = good.split(b"\n")[2][4:]
    assert key_line != key_line.upper()
    # name, why, manifest, file, fault
    cases: list[tuple[str, str, bytes, bytes | None, str | None]] = [
        ("right", "signed with this key", MANIFEST, good, None),
        ("unsigned", "there is no manifest.sig", MANIFEST, None, "unsigned"),
        ("manifest_changed", "one bit of the manifest", MANIFEST[:9] + b"g" + MANIFEST[10:], good,
         "wrong_signature"),
        ("manifest_longer", "a newline more: the bytes are signed, not the JSON", MANIFEST + b"\n", good,
         "wrong_signature"),
        ("manifest_empty", "an empty manifest is not the signed one", b"", good, "wrong_signature"),
        ("signature_changed", "one bit of the signature", MANIFEST, file_of(public, flipped),
         "wrong_signature"),
        ("signature_twin", "S + L instead of S: the same point, refused by RFC 8032, section 5.1.7", MANIFEST,
         file_of(public, twin), "wrong_signature"),
        ("signature_zero", "64 zero bytes", MANIFEST, file_of(public, bytes(64)), "wrong_signature"),
        ("other_key", "signed with another key, under that key's id",
         MANIFEST, file_of(foreign, other.sign(MANIFEST)),
         "other_key"),
        ("other_key_hidden", "signed with another key under our key's id: the id proves nothing",
         MANIFEST, file_of(public, other.sign(MANIFEST)), "wrong_signature"),
        ("name_changed", "our signature under another key's id", MANIFEST, file_of(foreign, signature),
         "other_key"),
        ("empty", "an empty file is malformed, not unsigned", MANIFEST, b"", "malformed"),
        ("cut", "the last byte is missing", MANIFEST, good[:-1], "malformed"),
        ("longer", "one byte more", MANIFEST, good + b"\n", "malformed"),
        ("version_2", "another version", MANIFEST, good.replace(b"signature 1", b"signature 2", 1),
         "malformed"),
        ("algorithm_none", "there is one algorithm", MANIFEST, good.replace(b"ed25519", b"noneyet", 1),
         "malformed"),
        ("upper_case", "digits are lower case", MANIFEST, good.replace(key_line, key_line.upper(), 1),
         "malformed"),
        ("no_hex", "a letter that is not a digit", MANIFEST, good[:-2] + b"g\n", "malformed"),
        ("line_ends", "carriage returns", MANIFEST, good.replace(b"\n", b"\r\n"), "malformed"),
        ("lines_turned", "the order of the lines is fixed", MANIFEST,
         b"\n".join([good.split(b"\n")[i] for i in (0, 2, 1, 3)]) + b"\n", "malformed"),
        ("not_ascii", "bytes that are not text", MANIFEST, b"\xff" * len(good), "malformed"),
    ]  # fmt: skip
    vectors = []
    for name, why, manifest, file, fault in cases:
        given = {"public_key": public.hex(), "manifest": manifest.hex()}
        given_file = None if file is None else file.hex()
        vectors.append(vector(name, why, {**given, "file": given_file}, {"fault": fault}))
    return vectors + _weak_keys()


def _weak_keys() -> list[dict[str, Any]]:
    """Public keys of small order, with both signs: R = the neutral element and S = 0 fit them."""
    orders = {"order_8": EIGHT_Y, "order_8_other": P - EIGHT_Y}
    keys = {"0": 0, "1": 1, **orders, "p_minus_1": P - 1, "p": P, "p_plus_1": P + 1}
    vectors = []
    for name, y in keys.items():
        for sign in (0, 1):
            key = (y | sign << 255).to_bytes(32, "little")
            given = {
                "public_key": key.hex(),
                "manifest": MANIFEST.hex(),
                "file": file_of(key, b"\x01" + bytes(63)).hex(),
            }
            why = "a public key of small order: anybody can make a signature that fits it"
            vectors.append(vector(f"weak_key_{name}_{sign}", why, given, {"fault": "wrong_signature"}))
    return vectors


def _points() -> list[dict[str, Any]]:
    """Signatures that no library writes: most of them solve another equation than that of RFC 8032."""
    seed = bytes.fromhex(RFC_8032[0][0])
    secret, public = secret_scalar(seed), bytes.fromhex(RFC_8032[0][1])
    assert encoded(times(secret, BASE)) == public
    nonce, eight = 12345, of_y(EIGHT_Y)
    assert times(8, eight) == NEUTRAL != times(4, eight)
    right = signed(encoded(times(nonce, BASE)), nonce, secret, public, MANIFEST)
    Ed25519PrivateKey.from_private_bytes(seed).public_key().verify(right, MANIFEST)
    beside = encoded(added(times(nonce, BASE), eight))
    mixed = encoded(added(times(secret, BASE), eight))
    cases = [
        ("nonce", "R is any point: a verifier does not know how it was chosen", public, right, None),
        ("r_not_canonical", "R is p + 1, and the neutral point has y = 1", public,
         signed((P + 1).to_bytes(32, "little"), 0, secret, public, MANIFEST), "wrong_signature"),
        ("r_minus_zero", "R is the neutral point with the sign of x, which is 0", public,
         signed((1 | 1 << 255).to_bytes(32, "little"), 0, secret, public, MANIFEST), "wrong_signature"),
        ("r_beside", "R plus a point of order 8 solves the equation times 8 alone", public,
         signed(beside, nonce, secret, public, MANIFEST), "wrong_signature"),
        ("r_no_point", "no point has this y", public, b"\x02" + bytes(31) + right[32:], "wrong_signature"),
        ("s_is_l", "S = L", public, right[:32] + ORDER.to_bytes(32, "little"), "wrong_signature"),
        ("s_largest", "S = 2^256 - 1", public, right[:32] + b"\xff" * 32, "wrong_signature"),
        ("key_beside", "a key plus a point of order 8 solves the equation times 8 alone", mixed,
         signed(encoded(times(nonce, BASE)), nonce, secret, mixed, MANIFEST), "wrong_signature"),
        ("key_no_point", "no point has the key's y", b"\x02" + bytes(31), right, "wrong_signature"),
        ("key_above_p", "the key's y is p + 3 and not 3", (P + 3).to_bytes(32, "little"), right,
         "wrong_signature"),
    ]  # fmt: skip
    assert challenge(encoded(times(nonce, BASE)), mixed, MANIFEST) % 8 != 0
    return [
        vector(f"point_{name}", why, {"public_key": key.hex(), "manifest": MANIFEST.hex(),
                                      "file": file_of(key, signature).hex()}, {"fault": fault})
        for name, why, key, signature, fault in cases
    ]  # fmt: skip
