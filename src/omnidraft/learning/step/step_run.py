"""A training graph of a bundle and the vector that learns in it, with AdamW's moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError
from omnidraft.runtime.models.adapter import Floats
from omnidraft.runtime.models.onnx_session import cpu_session

Arrays = dict[str, npt.NDArray[np.generic]]
_VECTORS = ("parameters", "exp_avg", "exp_avg_sq")


class StepRun:
    """What learns.

    Attributes:
        parameters: the vector, laid out as the manifest says. updates: how often it was changed.
    """

    def __init__(self, graph: Path, folder: Path, begin: Floats, threads: int) -> None:
        """
        Args:
            graph: a training graph. folder: what the places of its weights are relative to.
            begin: the vector's values.
            threads: of a run.

        Raises:
            BundleError: onnxruntime cannot load the graph.
        """
        self._session = cpu_session(graph, threads, weights=folder)
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._carried = {
            value.name: value.shape
            for value in self._session.get_inputs()
            if f"next_{value.name}" in self._outputs and value.name not in (*_VECTORS, "updates")
        }
        self._vectors = {"parameters": begin, **{name: np.zeros_like(begin) for name in _VECTORS[1:]}}
        self.updates = 0

    @property
    def parameters(self) -> Floats:
        return self._vectors["parameters"]

    def run(self, parts: Sequence[Mapping[str, npt.NDArray[Any]]], settings: Arrays) -> dict[str, Any]:
        """One step on a batch in parts, at least one: the gradient grows with each, the last applies it.

        Returns:
            the outputs of the last call; `sums`, which the graph does not carry on, of all calls.
        """
        carried: Arrays = {name: np.zeros(shape, np.float32) for name, shape in self._carried.items()}
        state = {**self._vectors, "updates": np.array(self.updates, np.int64)}
        found, sums = dict[str, Any](), np.zeros(0)
        for i, part in enumerate(parts):
            given = {**settings, **state, **carried, **part, "last": np.array(i == len(parts) - 1)}
            found = dict(zip(self._outputs, self._session.run(None, given), strict=True))
            carried = {name: found[f"next_{name}"] for name in carried}
            own = found.get("sums", np.zeros(0)).astype(np.float64)
            sums = own + sums if i else own
        if found["applied"]:
            self._vectors = {name: found[f"next_{name}"] for name in _VECTORS}
            self.updates = int(found["next_updates"])
        return {**found, "sums": sums}

    def state(self, prefix: str) -> Arrays:
        """The vectors and the count, copies, with names that begin so."""
        vectors = {f"{prefix}{name}": vector.copy() for name, vector in self._vectors.items()}
        return {**vectors, f"{prefix}updates": np.array([self.updates], np.int64)}

    def check(self, state: Mapping[str, npt.NDArray[Any]], prefix: str) -> None:
        """
        Raises:
            SettingError: a `state()` of something else.
        """
        for name, own in self.state(prefix).items():
            found = state.get(name)
            if found is None or (found.dtype, found.shape) != (own.dtype, own.shape):
                told = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
                raise SettingError(
                    f"the state of a learner has {told} as {name} and this one "
                    f"needs {own.dtype} {list(own.shape)}",
                    "go on with the bundle and settings that it was begun with",
                )

    def restore(self, state: Mapping[str, npt.NDArray[Any]], prefix: str) -> None:
        """Take over a state that was checked."""
        self._vectors = {name: np.array(state[f"{prefix}{name}"]) for name in _VECTORS}
        self.updates = int(state[f"{prefix}updates"][0])
