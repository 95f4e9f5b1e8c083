"""Make Ed25519 keys and sign bundles, with the package `cryptography`. Format: spec/10-signing.md."""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import BundleError, SettingError, install, refusing
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.manifest_file import MANIFEST, parse_manifest, read_manifest
from omnidraft.runtime.bundle.signature import MAX_KEY_BYTES, SIGNATURE, Signature, encode, key_id
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.disk.read_file import read_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Passphrase = Callable[[], bytes]  # called only if a key is encrypted


def need_cryptography() -> None:
    """Check that `cryptography` is installed.

    Raises:
        SettingError: `cryptography` is not installed.
    """
    if find_spec("cryptography") is None:
        raise SettingError("keys and signatures need the package cryptography", install("sign"))


def make_keys(name: Path, passphrase: bytes | None = None) -> tuple[Path, Path, str]:
    """Make a pair of keys: `NAME.private.pem`, readable by its owner only, and `NAME.public.pem`.

    Args:
        name: path of the files without their endings.
        passphrase: encrypts the private key; None for a key that is not encrypted.

    Returns:
        The private file, the public file, and the id of the key.

    Raises:
        SettingError: a file exists (keys are never overwritten) or cannot be written, or the package
            `cryptography` is not installed.
    """
    need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not name.name:
        raise SettingError(f"{name} names no file", "give the keys a name, such as `-o my-key`")
    private, public = (name.with_name(f"{name.name}.{part}.pem") for part in ("private", "public"))
    for file in (private, public):
        if file.exists() or file.is_symlink():
            raise SettingError(f"{file} exists already and keys are never overwritten", "choose another name")
    key = Ed25519PrivateKey.generate()
    cipher: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        cipher = serialization.BestAvailableEncryption(passphrase)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, public_pem, 0o644)
    except SettingError:
        private.unlink()  # half a pair is useless
        raise
    return private, public, key_id(raw_public(key))


def sign_bundle(path: Path, key: Path, passphrase: Passphrase) -> str:
    """Verify a bundle's hashes and write its signature; an older signature is replaced.

    Args:
        path: the bundle.
        key: a PEM file with an Ed25519 private key.
        passphrase: called if the key is encrypted.

    Returns:
        The id of the key.

    Raises:
        BundleError: the bundle is damaged, or it changed meanwhile.
        SettingError: the file is not an Ed25519 private key, or the signature cannot be written.
    """
    need_cryptography()
    private = read_private_key(key, passphrase)
    bundle = open_bundle(path)  # a damaged bundle must not be signed
    manifest = read_manifest(path)
    if parse_manifest(path, manifest)["seal"] != bundle.manifest["seal"]:
        raise BundleError(
            f"{path / MANIFEST} was changed while it was verified",
            "sign it again when nothing writes to it",
            fault="graph",
        )
    signature = sign(manifest, private)
    with refusing(
        SettingError, f"cannot write {path / SIGNATURE}", "free some space or make the bundle writable"
    ):
        write_atomically(path / SIGNATURE, encode(signature))
    return signature.key_id


def sign(data: bytes, key: "Ed25519PrivateKey") -> Signature:
    """Sign some bytes."""
    return Signature(key_id(raw_public(key)), key.sign(data))


def read_private_key(path: Path, passphrase: Passphrase) -> "Ed25519PrivateKey":
    """Read an Ed25519 private key in PEM form.

    Raises:
        SettingError: the file cannot be read, is not such a key, or does not open with the passphrase.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with refusing(SettingError, f"the private key {path} cannot be read", "check the path"):
        pem = read_whole(path, MAX_KEY_BYTES)
    encrypted = b"ENCRYPTED" in pem
    secret = passphrase() if encrypted else None
    try:
        key = load_pem_private_key(pem, secret)
    except Exception:  # the exceptions of cryptography have no narrower common base
        if encrypted:
            raise SettingError(
                f"{path} does not open with this passphrase", "give the passphrase that it was made with"
            ) from None
        raise SettingError(
            f"{path} is not a private key in PEM form", "make one with `omnidraft keygen -o NAME`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingError(f"{path} is not an Ed25519 key", "make one with `omnidraft keygen -o NAME`")
    return key


def raw_public(key: "Ed25519PrivateKey") -> bytes:
    """The 32 bytes of the public key."""
    from cryptography.hazmat.primitives import serialization

    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist; it has its permissions from the start."""
    with refusing(SettingError, f"cannot write {path}", "choose another name"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()
        raise SettingError(f"cannot write {path} ({error.strerror})", "choose another place") from None
