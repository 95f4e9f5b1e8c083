"""Runner of `signing`: the bytes of a signature file, and the signatures that are refused."""

from __future__ import annotations

import json

import pytest

from conformance.vectors import Vector
from omnidraft.errors import SignatureError
from omnidraft.runtime.bundle.signature import Signature, decode, encode, key_id, verify


def run_signing(vector: Vector) -> None:
    pytest.importorskip("cryptography", reason="signatures need the package cryptography")
    given, expect = vector["input"], vector["expect"]
    manifest, public = bytes.fromhex(given["manifest"]), bytes.fromhex(given["public_key"])
    if "seed" in given:
        _check_signer(given["seed"], manifest, public, expect)
        return
    file = given["file"]
    if expect["fault"] is None:
        verify(manifest, decode(bytes.fromhex(file)), public)
        return
    with pytest.raises(SignatureError) as refused:
        verify(manifest, None if file is None else decode(bytes.fromhex(file)), public)
    assert refused.value.fault == expect["fault"], json.dumps(vector)
    assert str(refused.value)


def _check_signer(seed: str, manifest: bytes, public: bytes, expect: dict[str, str]) -> None:
    """Ed25519 is deterministic, so a signer must write exactly this file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    signed = Signature(key_id(public), key.sign(manifest))
    assert key.public_key().public_bytes_raw() == public
    assert signed.key_id == expect["key"]
    assert encode(signed) == bytes.fromhex(expect["file"])
    assert decode(encode(signed)) == signed
