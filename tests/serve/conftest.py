"""A server that the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from support.serving import Serving, serving


@pytest.fixture(scope="session")
def served(bundle: Path) -> Iterator[Serving]:
    """The starter bundle behind the API."""
    with serving(bundle) as started:
        yield started


@pytest.fixture(scope="session")
def client(served: Serving) -> Iterator[OpenAI]:
    """The client of the openai package."""
    with served.client() as made:
        yield made
