"""Another value under a name of a library, for as long as a block runs: what it prints or makes by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INHERITED = object()


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let `owner.name`, of a class or a module, be `value`, and afterwards what it was before."""
    before = vars(owner).get(name, _INHERITED)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
