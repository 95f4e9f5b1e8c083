"""Convert the shipped CPU graphs to .ort files for onnxruntime's minimal builds, and list their operators.

The style is "runtime": basic optimisations are applied and later ones only recorded, so a compiling provider
(CoreML, NNAPI) still finds the operators that it supports. onnxruntime's own converter is used.
"""

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnxruntime
from onnxruntime.tools.convert_onnx_models_to_ort import OptimizationStyle, convert_onnx_models_to_ort

from omnidraft.errors import ExportError
from omnidraft.runtime.bundle.bundle import OrtFiles

MOST_BYTES = (1 << 31) - 1  # of an .ort file: its offsets are signed 32-bit integers
OPERATORS = "required_operators.config"
_WARNINGS, _ERRORS = 2, 3  # onnxruntime's log levels; the default is warnings
_LEVEL = (
    "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL"  # this variable would change the converter's output
)


def refuse_too_large(graphs: Iterable[Path], most: int = MOST_BYTES) -> None:
    """Refuse graphs that are too large for an .ort file, which holds the weights too.

    Raises:
        ExportError: a graph and its weights have more than `most` bytes.
    """
    for graph in graphs:
        beside = graph.with_name(f"{graph.name}.data")
        size = graph.stat().st_size + (beside.stat().st_size if beside.exists() else 0)
        if size > most:
            role = graph.parent.parent.name
            raise ExportError(
                f"an .ort file holds graph and weights, at most {most} bytes, and the {role} has {size}",
                "export with --quant int4, or leave out --ort",
            )


def write_ort(work: Path, graphs: dict[str, str]) -> OrtFiles:
    """Write an .ort file beside each CPU graph of a bundle, and the list of operators that they need.

    Args:
        work: the bundle.
        graphs: path of the graph of `target` and of `drafter`.

    Raises:
        ExportError: a graph is too large, or onnxruntime cannot convert it.
    """
    refuse_too_large(work / name for name in graphs.values())
    paths, operators = {}, []
    for role, name in graphs.items():
        file = (work / name).with_suffix(".ort")
        operators.append(_convert(work / name, file))
        paths[role] = file.relative_to(work).as_posix()
    (work / OPERATORS).write_text(join_operators(operators), encoding="utf-8")
    return OrtFiles(paths["target"], paths["drafter"], OPERATORS, "runtime", onnxruntime.__version__)


def join_operators(configs: Iterable[str]) -> str:
    """Merge lists of required operators; a line is `domain;opset;operator,operator`.

    The converter's comments are dropped, because they contain paths of this machine.
    """
    operators: dict[tuple[str, int], set[str]] = {}
    for line in "\n".join(configs).splitlines():
        if line and not line.startswith("#"):
            domain, opset, names = line.split(";", 2)
            operators.setdefault((domain, int(opset)), set()).update(names.split(","))
    lines = [
        f"{domain};{opset};{','.join(sorted(names))}" for (domain, opset), names in sorted(operators.items())
    ]
    return "".join(f"{line}\n" for line in ("# what the .ort files of this bundle need", *lines))


def _convert(graph: Path, file: Path) -> str:
    """Convert one graph and return its list of operators."""
    with tempfile.TemporaryDirectory(dir=graph.parent, prefix=".ort.") as place, _quiet():
        try:
            convert_onnx_models_to_ort(graph, Path(place), [OptimizationStyle.Runtime])
        except OSError:
            raise  # a full disk is reported by the workplace
        except Exception as error:  # onnxruntime's exceptions have no narrower common base
            reason = str(error).strip().splitlines()[0][:200]
            raise ExportError(
                f"onnxruntime cannot convert {graph.name} ({reason})", "leave out --ort"
            ) from None
        (made,) = Path(place).glob("*.ort")
        (config,) = Path(place).glob("*.config")
        with made.open("rb") as written:
            os.fsync(written.fileno())
        made.replace(file)
        return config.read_text(encoding="utf-8")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the converter's output, logs and warnings off the terminal."""
    logger = logging.getLogger("ort_format_model.utils")
    before, level = logger.level, os.environ.pop(_LEVEL, None)
    logger.setLevel(logging.WARNING)
    onnxruntime.set_default_logger_severity(
        _ERRORS
    )  # it warns about every tensor that an adapter may replace
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            # The converter does not close the files that it reads.
            warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)
            yield
    finally:
        onnxruntime.set_default_logger_severity(_WARNINGS)
        logger.setLevel(before)
        if level is not None:
            os.environ[_LEVEL] = level
