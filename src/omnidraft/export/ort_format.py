"""The shipped CPU graphs as .ort files, which onnxruntime's minimal builds load, and the operators they need.

Runtime style: basic optimisations are made and later ones only noted, so a compiling provider (CoreML, NNAPI)
still finds the operators that it knows. onnxruntime's own converter does the work.
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

MOST_BYTES = (1 << 31) - 1  # of an .ort file, whose offsets are signed 32-bit numbers
OPERATORS = "required_operators.config"
_WARNINGS, _ERRORS = 2, 3  # onnxruntime's levels; it begins at warnings
_LEVEL = "ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL"  # would change what the converter does


def refuse_too_large(graphs: Iterable[Path], most: int = MOST_BYTES) -> None:
    """Refuse graphs that no .ort file can hold: it carries the weights inside.

    Raises:
        ExportError: with the size and the remedy.
    """
    for graph in graphs:
        beside = graph.with_name(f"{graph.name}.data")
        size = graph.stat().st_size + (beside.stat().st_size if beside.exists() else 0)
        if size > most:
            role = graph.parent.parent.name
            raise ExportError(
                f"an .ort file holds its weights inside, at most {most} bytes, and the {role} has {size}",
                "export with --quant int4, or leave out --ort",
            )


def write_ort(work: Path, graphs: dict[str, str]) -> OrtFiles:
    """Write an .ort file beside each CPU graph of a bundle, and the operators that they need.

    Args:
        work: the bundle. graphs: path of the graph of `target` and of `drafter`.

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
    """One list of required operators from several; the converter's comments name paths of this machine.

    A line is `domain;opset;operator,operator`.
    """
    found: dict[tuple[str, int], set[str]] = {}
    for line in "\n".join(configs).splitlines():
        if line and not line.startswith("#"):
            domain, opset, names = line.split(";", 2)
            found.setdefault((domain, int(opset)), set()).update(names.split(","))
    lines = (f"{domain};{opset};{','.join(sorted(found[domain, opset]))}" for domain, opset in sorted(found))
    return "".join(f"{line}\n" for line in ("# what the .ort files of this bundle need", *lines))


def _convert(graph: Path, file: Path) -> str:
    """Convert one graph and return its list of operators."""
    with tempfile.TemporaryDirectory(dir=graph.parent, prefix=".ort.") as place, _quiet():
        try:
            convert_onnx_models_to_ort(graph, Path(place), [OptimizationStyle.Runtime])
        except OSError:
            raise  # a full disk is told as everywhere
        except Exception as error:  # onnxruntime's own exceptions share no narrower base
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
    """Keeps what the converter prints, logs and warns of off the terminal."""
    logger = logging.getLogger("ort_format_model.utils")
    before, level = logger.level, os.environ.pop(_LEVEL, None)
    logger.setLevel(logging.WARNING)
    onnxruntime.set_default_logger_severity(_ERRORS)  # it warns of every tensor that an adapter may replace
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            # It reads the files that it made through handles that it leaves to Python to close.
            warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)
            yield
    finally:
        onnxruntime.set_default_logger_severity(_WARNINGS)
        logger.setLevel(before)
        if level is not None:
            os.environ[_LEVEL] = level
