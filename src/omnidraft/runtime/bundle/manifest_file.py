"""The file manifest.json: its bytes, its seal, and JSON in bounds; spec/03-bundle.md.

The seal is over the bytes of the file as they lie, so no program has to print a number as another does.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.disk.read_file import read_whole
from omnidraft.runtime.disk.strict_json import parse

FORMAT = "omnidraft.bundle"
VERSION = 3
MANIFEST = "manifest.json"
MAX_BYTES = limits.MAX_MANIFEST_BYTES
_BEFORE = b'{"seal": "'
_SEALED = len(_BEFORE) + 64  # the byte at which what is sealed begins: the quotation mark after the digits
_AGAIN = "run `omnidraft export` again"


def read_manifest(path: Path) -> bytes:
    """The bytes of the manifest in a directory.

    Raises:
        BundleError: `no_bundle` or `unreadable`.
    """
    if path.is_file():
        remedy = f"if it is an archive, run `omnidraft unpack {path} -o DIRECTORY`"
        if path.suffix.lower() == ".gguf":
            remedy = f"export it first: `omnidraft export {path} -o DIRECTORY`"
        elif path.suffix.lower() == ".grammar":
            remedy = "name a bundle, and give a file of `omnidraft grammar` to --grammar"
        raise BundleError(
            f"{path} is a file, and graphs are run from a bundle's directory", remedy, fault="no_bundle"
        )
    if not path.is_dir():
        raise BundleError(
            f"no bundle at {path}",
            f"make one with `omnidraft export TARGET -o {path}`",
            fault="no_bundle",
        )
    try:
        return read_whole(path / MANIFEST, MAX_BYTES)
    except FileNotFoundError:
        raise BundleError(
            f"{path} has no {MANIFEST}, so it is not a bundle",
            "make one with `omnidraft export`",
            fault="no_bundle",
        ) from None
    except OSError as error:
        raise BundleError(
            f"{path / MANIFEST} is not readable ({error.strerror})", _AGAIN, fault="unreadable"
        ) from None


def parse_manifest(path: Path, data: bytes) -> dict[str, Any]:
    """The fields of a manifest, their values unchecked.

    Raises:
        BundleError: `unreadable`, `not_a_bundle`, `version` or `seal`.
    """
    file = path / MANIFEST
    try:
        manifest = parse(data)
    except ValueError as error:
        raise BundleError(f"{file} is not readable ({error})", _AGAIN, fault="unreadable") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(
            f"{file} is not an {FORMAT} manifest", "make one with `omnidraft export`", fault="not_a_bundle"
        )
    version = manifest.get("version")
    if type(version) is not int or version != VERSION:
        raise BundleError(
            f"{path} is a bundle of version {version!r:.20} and this omnidraft reads version {VERSION}",
            f"{_AGAIN} or install the omnidraft that wrote it",
            fault="version",
        )
    if data[:_SEALED] != _BEFORE + seal_of(data).encode() or data[_SEALED : _SEALED + 2] != b'",':
        raise BundleError(
            f"{file} was changed after it was written (its seal does not match)", _AGAIN, fault="seal"
        )
    return manifest


def seal_of(data: bytes) -> str:
    """The seal that belongs into a manifest: the SHA-256 of all bytes after the digits of the seal."""
    return hashlib.sha256(data[_SEALED:]).hexdigest()


def sealed(manifest: dict[str, Any]) -> bytes:
    """The bytes of a manifest's file.

    Args:
        manifest: the fields; a field `seal` is left out and made again.
    """
    fields = {name: value for name, value in manifest.items() if name != "seal"}
    rest = b'",' + (json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False)[1:] + "\n").encode()
    return _BEFORE + hashlib.sha256(rest).hexdigest().encode() + rest
