"""Runs of a graph: another thread can end a run, and an error of the engine is a sentence with its name."""

from collections.abc import Callable
from weakref import WeakSet

import onnxruntime as ort

from omnidraft.errors import BundleError, reason
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.models.engine_memory import remedy_for
from omnidraft.runtime.models.onnx_session import NOTHING

_RUNS: "WeakSet[EngineRun]" = WeakSet()
# onnxruntime's default, and without a meaning on the CPU. Where it is not set, onnxruntime 1.31 looks for it
# in each run and catches an exception, which takes longer than all that this module does.
_DEFAULT_GRAPH_ID = ("gpu_graph_id", "0")


class EngineRun:
    """Runs a graph on bindings, one after another."""

    def __init__(self, session: ort.InferenceSession, name: str) -> None:
        self._session, self._name = session, name
        self._options = ort.RunOptions()
        self._options.log_severity_level = NOTHING  # failures are reported here
        self._options.add_run_config_entry(*_DEFAULT_GRAPH_ID)
        self._ends = 0  # calls of `end`
        _RUNS.add(self)

    def __call__(self, binding: ort.IOBinding, cancelled: Callable[[], bool]) -> None:
        """Run the graph once.

        Args:
            cancelled: asked before the run, and again where the run was interrupted: a run that nobody
                cancelled is repeated.

        Raises:
            Cancelled: `cancelled` returned True, or `end` was called.
            BundleError: `run`; onnxruntime cannot run the graph.
        """
        ends = self._ends
        while True:
            if cancelled() or ends != self._ends:
                raise Cancelled
            try:
                self._session.run_with_iobinding(binding, self._options)
                return
            except Exception as error:  # onnxruntime's own exceptions share no narrower base
                if not self._options.terminate:
                    raise BundleError(
                        f"onnxruntime cannot run {self._name} ({reason(error)})",
                        remedy_for(error),
                        fault="run",
                    ) from None
                self._options.terminate = False

    def interrupt(self) -> None:
        """End the run that is going on, or else the next one, within one operator; from any thread."""
        self._options.terminate = True

    def end(self) -> None:
        """End the run that is going on as if it was cancelled; from any thread."""
        self._ends += 1
        self.interrupt()


def end_all() -> None:
    """End every run that is going on in this process: a signal's handler waits for the main thread."""
    for run in list(_RUNS):
        run.end()
