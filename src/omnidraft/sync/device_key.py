"""The Ed25519 key of this device, made once in the state directory: its public key is its identity."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from omnidraft.errors import SettingError, refusing
from omnidraft.runtime.device.state_directory import VARIABLE, state_directory
from omnidraft.runtime.disk.own_directory import is_own_directory
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.signing import need_cryptography

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE = "device.key"  # 32 bytes, the seed of RFC 8032
_BYTES = 32


def device_key() -> "Ed25519PrivateKey":
    """The key of this device; the first call makes it.

    Raises:
        SettingError: there is no private place for it, the file is damaged, or `cryptography` is missing.
    """
    need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    root = state_directory()
    if root is None:
        raise SettingError("this system names no place for the device's key", f"set {VARIABLE}")
    path = root / FILE
    with refusing(
        SettingError,
        f"the device's key {path} cannot be read or written",
        f"check its permissions, or set {VARIABLE}",
    ):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_own_directory(root):
            raise SettingError(
                f"{root} is not this user's own directory, so it cannot hold the device's key",
                f"forbid others to write to it, or set {VARIABLE}",
            )
        if not path.exists():
            _write_once(path, secrets.token_bytes(_BYTES))
        seed = read_whole(path, _BYTES)
    if len(seed) != _BYTES:
        raise SettingError(
            f"the device's key {path} has {len(seed)} bytes where it has {_BYTES}",
            "delete it; the device then has a new identity",
        )
    return Ed25519PrivateKey.from_private_bytes(seed)


def _write_once(path: Path, data: bytes) -> None:
    """Write a private file that nobody replaces; the first of several processes wins."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename, it fails where the name is taken
    finally:
        temporary.unlink()
