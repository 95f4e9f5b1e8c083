"""The accelerators that static graphs are exported for: the form and the options of each.

QNN was tested only in its emulator, CoreML and NNAPI not at all: see docs/npu.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from omnidraft.errors import SettingError

_HTP = {
    "backend_type": "htp",
    "htp_performance_mode": "burst",
    "htp_graph_finalization_optimization_mode": "3",
    "offload_graph_io_quantization": "0",  # otherwise the first and last nodes run on the CPU
}


@dataclass(frozen=True)
class Accelerator:
    """How onnxruntime uses an accelerator."""

    form: str  # "float", or "qdq" for 16-bit activations and 8-bit weights
    provider: str  # onnxruntime's name of the execution provider
    options: dict[str, str]  # the provider's options
    # names of further options whose values are directories that the device chooses
    directories: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The entry of the manifest."""
        return {
            "form": self.form,
            "provider": self.provider,
            "options": self.options,
            "directories": list(self.directories),
        }


ACCELERATORS = {
    "qnn": Accelerator("qdq", "QNNExecutionProvider", _HTP),
    "qnn-fp16": Accelerator("float", "QNNExecutionProvider", {**_HTP, "enable_htp_fp16_precision": "1"}),
    "coreml": Accelerator(
        "float",
        "CoreMLExecutionProvider",
        {"ModelFormat": "MLProgram", "MLComputeUnits": "ALL", "RequireStaticInputShapes": "1"},
        ("ModelCacheDirectory",),
    ),
    "nnapi": Accelerator("float", "NnapiExecutionProvider", {}),
}
NAMED = {"qnn": ("qnn", "qnn-fp16"), "coreml": ("coreml",), "nnapi": ("nnapi",)}
_ALL = ("qnn", "coreml")  # NNAPI is deprecated since Android 15


def accelerators(names: Iterable[str]) -> tuple[str, ...]:
    """The entries of `ACCELERATORS` that `--npu` names; a name may be a list with commas."""
    entries: dict[str, None] = {}  # a dict keeps the order
    for name in [name.strip() for listed in names for name in listed.split(",") if name.strip()]:
        if name != "all" and name not in NAMED:
            raise SettingError(
                f"--npu {name!r} is unknown", f"use {', '.join(NAMED)}, or all for {' and '.join(_ALL)}"
            )
        for each in _ALL if name == "all" else (name,):
            entries.update(dict.fromkeys(NAMED[each]))
    return tuple(entries)
