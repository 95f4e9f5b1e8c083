"""The bytes of a bundle's manifest: spec/03-bundle.md, "The seal". And the fingerprint of a vocabulary."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def body_of(manifest: Mapping[str, Any]) -> str:
    """The fields as JSON text, with escapes for what is not ASCII."""
    return json.dumps(manifest, separators=(",", ":"))


def sealed(body: str) -> bytes:
    """A manifest's file: the text of an object, with the seal as its first field."""
    rest = ('",' + body[1:]).encode()
    return b'{"seal": "' + hashlib.sha256(rest).hexdigest().encode() + rest


def fingerprint(tokens: Sequence[bytes | None], controls: Mapping[int, str]) -> str:
    """The fingerprint of a vocabulary.

    Args:
        tokens: bytes of each id; None for an id without a token or with a control token.
        controls: text of each control token by its id.
    """
    digest = hashlib.sha256()
    for token in tokens:
        digest.update(b"\xff\xff\xff\xff" if token is None else len(token).to_bytes(4, "little") + token)
    for token_id in sorted(controls):
        digest.update(f"{token_id}:{controls[token_id]}\n".encode())
    return digest.hexdigest()
