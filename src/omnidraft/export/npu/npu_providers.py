"""The accelerators that static graphs are exported for: which form each takes, and with which options.

QNN was run in its emulator only, CoreML and NNAPI never: see docs/npu.md.
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
    "offload_graph_io_quantization": "0",  # else the first and last nodes are left to the CPU
}


@dataclass(frozen=True)
class Accelerator:
    """How onnxruntime is told to use an accelerator.

    Attributes:
        form: "float", or "qdq" with 16-bit activations and 8-bit weights.
        provider: onnxruntime's name. options: its own.
        directories: more options, each a directory that the device chooses.
    """

    form: str
    provider: str
    options: dict[str, str]
    directories: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
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
    """The entries of `ACCELERATORS` that `--npu` asks for, given as names or lists with commas.

    Raises:
        SettingError: a name is unknown.
    """
    wanted = [name.strip() for each in names for name in each.split(",") if name.strip()]
    found: dict[str, None] = {}
    for name in wanted:
        if name != "all" and name not in NAMED:
            raise SettingError(
                f"--npu {name!r} is unknown", f"use {', '.join(NAMED)}, or all for {' and '.join(_ALL)}"
            )
        for each in _ALL if name == "all" else (name,):
            found.update(dict.fromkeys(NAMED[each]))
    return tuple(found)
