"""Sessions of onnxruntime: the one place that sets their options."""

from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import BundleError, reason
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.models.engine_memory import own_arena

ENGINE = str(ort.__version__)
ERRORS, NOTHING = 3, 4  # levels of onnxruntime's log, which goes to stderr
_ONNX = {"session.load_model_format": "ONNX"}  # whatever a file's name is: no other format can be checked
NO_PREPACKING = {"session.disable_prepacking": "1"}  # weights stay mapped from their file
# A small graph can name constants of any size, and folding them would take that memory and time while it is
# loaded. Exported graphs hold nothing to fold; adopted graphs compute some twenty small values in each pass.
UNFOLDED = ("ConstantFolding",)


def session_options(
    threads: int, entries: Mapping[str, str] | None = None, *, log_level: int = ERRORS
) -> ort.SessionOptions:
    """Options of a session on the CPU."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = log_level
    for key, value in {**_ONNX, **spinning(ENGINE), **(entries or {})}.items():
        options.add_session_config_entry(key, value)
    return options


def spinning(engine: str) -> dict[str, str]:
    """How long the threads of a session spin before they sleep, as entries of onnxruntime's configuration.

    Waking a thread takes longer than many operators, and threads that spin cost battery. So they spin for
    0.2 ms, which is longer than the work between two passes of plain decoding. Engines before 1.26 know no
    time: there threads spin within a pass, and sleep between passes.
    """
    major, minor = (int(part) for part in engine.split(".")[:2])
    if (major, minor) < (1, 26):
        return {"session.force_spinning_stop": "1"}
    return {"session.intra_op.spin_duration_us": "200"}


def cpu_session(path: Path, threads: int) -> ort.InferenceSession:
    """A session for a graph on the CPU, with the weights beside it.

    Raises:
        BundleError: onnxruntime cannot load the graph.
    """
    return _session(str(path), path, session_options(threads, log_level=NOTHING))


def bytes_session(graph: bytes, path: Path, weights: Path, threads: int) -> ort.InferenceSession:
    """A session for a graph in memory on the CPU.

    Args:
        weights: the folder that the graph's external weights are relative to.

    Raises:
        BundleError: onnxruntime cannot load the graph.
    """
    key = "session.model_external_initializers_file_folder_path"
    return _session(graph, path, session_options(threads, {key: str(weights)}, log_level=NOTHING))


def _session(graph: str | bytes, path: Path, options: ort.SessionOptions) -> ort.InferenceSession:
    try:
        with own_arena(options):
            return ort.InferenceSession(graph, options, providers=[CPU], disabled_optimizers=UNFOLDED)
    except Exception as error:  # onnxruntime's own exceptions share no narrower base
        raise BundleError(
            f"onnxruntime cannot load {path} ({reason(error)})", "run `omnidraft export` again", fault="graph"
        ) from None
