"""Run a training graph of a bundle on a vector of parameters with AdamW's moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from omnidraft.errors import BundleError, SettingError, reason
from omnidraft.learning.step.state_file import Arrays
from omnidraft.runtime.models.adapter import Floats
from omnidraft.runtime.models.engine_memory import remedy_for

_VECTORS = ("parameters", "exp_avg", "exp_avg_sq")


class StepRun:
    """A training graph and its parameters."""

    def __init__(self, session: ort.InferenceSession, begin: Floats) -> None:
        self._session = session
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
        """The vector, with the layout in the manifest."""
        return self._vectors["parameters"]

    def run(self, parts: Sequence[Mapping[str, npt.NDArray[Any]]], settings: Arrays) -> dict[str, Any]:
        """Do one step on a batch in parts. Each call adds to the gradient, the last call applies it.

        Returns:
            the outputs of the last call.

        Raises:
            BundleError: `run`; onnxruntime cannot run the graph.
        """
        carried: Arrays = {name: np.zeros(shape, np.float32) for name, shape in self._carried.items()}
        state = {**self._vectors, "updates": np.array(self.updates, np.int64)}
        outputs: dict[str, Any] = {}
        for i, part in enumerate(parts):
            inputs = {**settings, **state, **carried, **part, "last": np.array(i == len(parts) - 1)}
            outputs = dict(zip(self._outputs, self._call(inputs), strict=True))
            carried = {name: outputs[f"next_{name}"] for name in carried}
        if outputs["applied"]:
            self._vectors = {name: outputs[f"next_{name}"] for name in _VECTORS}
            self.updates = int(outputs["next_updates"])
        return outputs

    def _call(self, inputs: dict[str, Any]) -> list[Any]:
        try:
            return list(self._session.run(None, inputs))
        except Exception as error:  # onnxruntime's own exceptions share no narrower base
            raise BundleError(
                f"onnxruntime cannot run the training step ({reason(error)})", remedy_for(error), fault="run"
            ) from None

    def state(self) -> Arrays:
        """Copies of the vectors and the count, by name."""
        vectors = {name: vector.copy() for name, vector in self._vectors.items()}
        return {**vectors, "updates": np.array([self.updates], np.int64)}

    def check(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """
        Raises:
            SettingError: the state is of another graph.
        """
        for name, own in self.state().items():
            array = state.get(name)
            if array is None or (array.dtype, array.shape) != (own.dtype, own.shape):
                actual = "nothing" if array is None else f"{array.dtype} {list(array.shape)}"
                raise SettingError(
                    f"the state of a learner has {actual} as {name} and this learner "
                    f"needs {own.dtype} {list(own.shape)}",
                    "go on with the bundle and settings that it was begun with",
                )

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a state that `check` accepted."""
        self._vectors = {name: np.array(state[name]) for name in _VECTORS}
        self.updates = int(state["updates"][0])
