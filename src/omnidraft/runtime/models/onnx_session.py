"""Sessions of onnxruntime: the one place that sets their options."""

from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from omnidraft.errors import BundleError, reason
from omnidraft.runtime.bundle.places import CPU

ERRORS, NOTHING = 3, 4  # levels of onnxruntime's log, which goes to stderr
NO_PREPACKING = {"session.disable_prepacking": "1"}  # weights stay mapped from their file


def session_options(
    threads: int, entries: Mapping[str, str] | None = None, *, log_level: int = ERRORS
) -> ort.SessionOptions:
    """Options of a session that waits without spinning: on a phone, waiting threads cost battery.

    Args:
        threads: of one pass.
        entries: more of onnxruntime's configuration, by key.
        log_level: NOTHING where the caller reports each failure itself.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = log_level
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return options


def cpu_session(path: Path, threads: int, *, weights: Path | None = None) -> ort.InferenceSession:
    """A session for a graph on the CPU.

    Args:
        path: the graph.
        threads: of one pass.
        weights: the folder that the graph's external weights are relative to; the graph's own when None.

    Raises:
        BundleError: onnxruntime cannot load the graph.
    """
    graph: str | bytes = str(path)
    options = session_options(threads)
    try:
        if weights is not None:  # onnxruntime looks in that folder only for a graph without a path
            key = "session.model_external_initializers_file_folder_path"
            options = session_options(threads, {key: str(weights)}, log_level=NOTHING)
            graph = path.read_bytes()
        return ort.InferenceSession(graph, options, providers=[CPU])
    except Exception as error:  # onnxruntime's own exceptions share no narrower base
        raise BundleError(
            f"onnxruntime cannot load {path} ({reason(error)})", "run `omnidraft export` again", fault="graph"
        ) from None
