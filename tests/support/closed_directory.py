"""A directory that the user of this process may not look into."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_NOBODY = 65534  # the user id in place of root's, who may look into every directory


@contextmanager
def closed(directory: Path) -> Iterator[None]:
    """Take the permissions of a directory away meanwhile. Modules that are needed must be imported before."""
    if sys.platform == "win32":
        pytest.skip("directories have no such permissions here")
    root = os.geteuid() == 0
    directory.chmod(0)
    if root:
        os.seteuid(_NOBODY)
    try:
        try:
            os.listdir(directory)
        except PermissionError:
            yield
        else:
            pytest.skip("this user may look into every directory")
    finally:
        if root:
            os.seteuid(0)
        directory.chmod(0o700)
