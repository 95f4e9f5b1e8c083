"""Make Ed25519 keys and sign bundles with them, by the `cryptography` package. Format: spec/signing.md."""

import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.bundle.bundle import MANIFEST, open_bundle
from omnidraft.runtime.bundle.signature import SIGNATURE, Signature, encode, key_id
from omnidraft.runtime.disk.atomic_write import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Passphrase = Callable[[], bytes]  # asked for one only where a key is encrypted


def need_cryptography() -> None:
    """Say what is missing instead of failing on an import.

    Raises:
        SettingError: `cryptography` is not installed.
    """
    if find_spec("cryptography") is None:
        raise SettingError(
            "keys and signatures need the package cryptography", "run `pip install 'omnidraft[sign]'`"
        )


def make_keys(name: Path, passphrase: bytes | None = None) -> tuple[Path, Path, str]:
    """Make a pair of keys: `NAME.private.pem`, which its owner alone can read, and `NAME.public.pem`.

    Args:
        passphrase: encrypts the private key; none when None.

    Returns:
        The two files, and the key's id.

    Raises:
        SettingError: a file of either name is there (it is never overwritten), or cannot be written.
    """
    need_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not name.name:
        raise SettingError(f"{name} names no file", "give keys a name, such as `-o my-key`")
    private, public = (name.with_name(f"{name.name}.{part}.pem") for part in ("private", "public"))
    for file in (private, public):
        if file.exists() or file.is_symlink():
            raise SettingError(f"{file} exists already and keys are never overwritten", "choose another name")
    key = Ed25519PrivateKey.generate()
    cipher: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        cipher = serialization.BestAvailableEncryption(passphrase)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)
    known = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, known, 0o644)
    except SettingError:
        private.unlink()  # half a pair is of no use
        raise
    return private, public, key_id(raw_public(key))


def sign_bundle(path: Path, key: Path, passphrase: Passphrase) -> str:
    """Verify a bundle's hashes and write its signature; an older one is replaced.

    Args:
        key: a PEM file with an Ed25519 private key.
        passphrase: asked where the key is encrypted.

    Returns:
        The key's id.

    Raises:
        BundleError: the bundle is not whole. SettingError: the key is none, or the file cannot be written.
    """
    need_cryptography()
    private = read_private_key(key, passphrase)
    found = open_bundle(path)  # nobody should vouch for a broken one
    manifest = (path / MANIFEST).read_bytes()
    if json.loads(manifest) != found.manifest:
        raise BundleError(
            f"{path / MANIFEST} was changed while it was verified",
            "sign it again when it rests",
            fault="graph",
        )
    signature = sign(manifest, private)
    try:
        write_atomically(path / SIGNATURE, encode(signature))
    except OSError as error:
        raise SettingError(
            f"cannot write {path / SIGNATURE} ({error.strerror})", "make room or make the bundle writable"
        ) from None
    return signature.key_id


def sign(data: bytes, key: "Ed25519PrivateKey") -> Signature:
    """A key's signature of some bytes."""
    return Signature(key_id(raw_public(key)), key.sign(data))


def read_private_key(path: Path, passphrase: Passphrase) -> "Ed25519PrivateKey":
    """An Ed25519 private key in PEM form.

    Raises:
        SettingError: there is none, or it does not open.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        pem = path.read_bytes()
    except OSError as error:
        raise SettingError(
            f"the private key {path} cannot be read ({error.strerror})", "check the path"
        ) from None
    encrypted = b"ENCRYPTED" in pem
    secret = passphrase() if encrypted else None
    try:
        key = load_pem_private_key(pem, secret)
    except Exception:  # cryptography's own exceptions share no narrower base
        if encrypted:
            raise SettingError(
                f"{path} does not open with this passphrase", "give the one that it was made with"
            ) from None
        raise SettingError(
            f"{path} is no private key in PEM form", "`omnidraft keygen -o NAME` makes a pair"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingError(f"{path} is no Ed25519 key", "`omnidraft keygen -o NAME` makes a pair")
    return key


def raw_public(key: "Ed25519PrivateKey") -> bytes:
    """The 32 bytes of a key's public half."""
    from cryptography.hazmat.primitives import serialization

    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not be there yet, with its permissions from the first moment."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise SettingError(f"cannot write {path} ({error.strerror})", "choose another name") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()
        raise SettingError(f"cannot write {path} ({error.strerror})", "choose another place") from None
