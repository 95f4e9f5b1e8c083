"""The signature of a bundle: Ed25519 over the exact bytes of its manifest, in a file beside it.

Format and order of the checks: spec/10-signing.md. The package `cryptography` is imported only when a
signature is checked, so a program that gives no public key does not need it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from omnidraft.errors import SettingError, SignatureError, install, refusing
from omnidraft.runtime.disk.read_file import read_file, read_whole

SIGNATURE = "manifest.sig"
PublicKey = str | Path | bytes  # a PEM file, or the key's own 32 bytes
_FIRST_LINES = b"omnidraft.signature 1\nalgorithm ed25519\nkey "
FILE_BYTES = len(_FIRST_LINES) + 16 + len(b"\nsignature ") + 128 + 1
MAX_KEY_BYTES = 1 << 16  # of a PEM file
_INSTALL = install("sign")
# y of the points of small order, without the sign of x: anybody can make a signature that fits such a key.
# The last two are not the least numbers of their y. The list is that of libsodium.
_P = (1 << 255) - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset(
    y.to_bytes(32, "little") for y in (0, 1, _ORDER_8, _P - _ORDER_8, _P - 1, _P, _P + 1)
)


@dataclass(frozen=True)
class Signature:
    """The content of a signature file: the id of the signing key (16 hex digits), and 64 bytes."""

    key_id: str
    value: bytes


def key_id(public_key: bytes) -> str:
    """The id of a key, the first 16 hex digits of the SHA-256 of its 32 bytes: a name and not a proof."""
    return hashlib.sha256(public_key).hexdigest()[:16]


def encode(signature: Signature) -> bytes:
    """The file that holds a signature, 200 bytes of ASCII."""
    lines = f"{signature.key_id}\nsignature {signature.value.hex()}\n"
    return _FIRST_LINES + lines.encode("ascii")


def decode(data: bytes) -> Signature:
    """Read a signature file. There is one way to write a signature; any other bytes are refused."""
    text = data[len(_FIRST_LINES) :]
    if len(data) == FILE_BYTES and set(text[:16] + text[27:-1]) <= set(b"0123456789abcdef"):
        signature = Signature(text[:16].decode(), bytes.fromhex(text[27:-1].decode()))
        if encode(signature) == data:
            return signature
    raise SignatureError(
        f"{SIGNATURE} is not a signature of version 1",
        "sign the bundle again or copy it again",
        fault="malformed",
    )


def read_signature(bundle: Path) -> Signature | None:
    """The signature beside a manifest, unchecked; None if there is none.

    Raises:
        SignatureError: `malformed`, or the file cannot be read.
    """
    try:
        return decode(read_file(bundle / SIGNATURE, FILE_BYTES + 1))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SignatureError(
            f"{bundle / SIGNATURE} cannot be read ({error})", "copy the whole bundle again", fault="malformed"
        ) from None


def verify(manifest: bytes, signature: Signature | None, public_key: bytes) -> None:
    """Check a signature over the bytes of a manifest.

    Raises:
        SignatureError: `unsigned`, `other_key` or `wrong_signature`.
    """
    if signature is None:
        raise SignatureError(
            f"this bundle is unsigned (no {SIGNATURE}) and a public key was given",
            "use a signed bundle, or give no key if you trust its source",
            fault="unsigned",
        )
    fault = fault_of(manifest, signature, public_key)
    if fault == "other_key":
        raise SignatureError(
            f"this bundle was signed with key {signature.key_id} and the public "
            f"key given is {key_id(public_key)}",
            "give its signer's key, or do not use this bundle",
            fault="other_key",
        )
    if fault is not None:
        raise SignatureError(
            "the signature does not fit manifest.json: one of them was changed after signing",
            "copy the bundle again, and do not use this one",
            fault="wrong_signature",
        )


def fault_of(data: bytes, signature: Signature, public_key: bytes) -> str | None:
    """The fault of a signature over bytes, `other_key` or `wrong_signature`; None if it is valid.

    Raises:
        SettingError: `cryptography` is not installed.
    """
    if signature.key_id != key_id(public_key):
        return "other_key"
    if public_key[:31] + bytes([public_key[31] & 0x7F]) in _SMALL_ORDER:
        return "wrong_signature"
    return None if _is_valid(data, signature.value, public_key) else "wrong_signature"


def read_public_key(key: PublicKey) -> bytes:
    """The 32 bytes of an Ed25519 public key.

    Raises:
        SettingError: the key is not readable or not an Ed25519 key, or `cryptography` is not installed.
    """
    if isinstance(key, bytes):
        if len(key) != 32:
            raise SettingError(
                f"a public key of Ed25519 has 32 bytes, not {len(key)}", "give 32 bytes or a PEM file"
            )
        return key
    path = Path(key)
    with refusing(SettingError, f"the public key {path} cannot be read", "check the path"):
        pem = read_whole(path, MAX_KEY_BYTES)
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise SettingError(
            f"reading the public key {path} needs the package cryptography", _INSTALL
        ) from None
    try:
        public = serialization.load_pem_public_key(pem)
    except Exception:  # cryptography's own exceptions share no narrower base
        raise SettingError(
            f"{path} is not a public key in PEM form", "`omnidraft keygen -o NAME` makes a pair"
        ) from None
    if not isinstance(public, Ed25519PublicKey):
        raise SettingError(f"{path} is not an Ed25519 key", "`omnidraft keygen -o NAME` makes a pair")
    return public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _is_valid(data: bytes, signature: bytes, public_key: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise SettingError("checking a signature needs the package cryptography", _INSTALL) from None
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True
