"""A random source that takes its uniforms from a vector, and all of them."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.runtime.decoding.rng import SplitMix64


class GivenUniforms(SplitMix64):
    """The runtime's own random source, on uniforms that are given."""

    def __init__(self, uniforms: Sequence[float]) -> None:
        super().__init__(0)
        self._uniforms = list(uniforms)

    def uniform(self) -> float:
        assert self._uniforms, "one uniform more than the vector has"
        return self._uniforms.pop(0)

    def finish(self) -> None:
        assert not self._uniforms, f"{len(self._uniforms)} uniforms were not taken"
