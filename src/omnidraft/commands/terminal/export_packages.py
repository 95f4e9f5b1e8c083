"""Whether the packages that a command needs are installed."""

import platform
from collections.abc import Iterable
from importlib.util import find_spec

from omnidraft.errors import SettingError, install


def need_packages(what: str, names: Iterable[str], extras: str) -> None:
    """Refuse where a package is missing, with the command that installs it.

    Args:
        what: needs them.
        extras: that install them.

    Raises:
        SettingError: a package is missing.
    """
    if missing := [name for name in names if not find_spec(name)]:
        version = platform.python_version()
        raise SettingError(
            f"{what} needs {', '.join(missing)}, which this Python ({version}) does not have",
            f"{install(extras)} with Python 3.11, 3.12 or 3.13",
        )


def need_export_packages(*models: str) -> None:
    """Refuse to export where a package is missing.

    Args:
        models: what is exported, directories or hub ids; checkpoints where there is none. Graphs of Optimum
            are adopted without torch.

    Raises:
        SettingError: a package is missing.
    """
    from omnidraft.checkpoints.gguf.header import find_gguf
    from omnidraft.export.adopt.find_graph import find_graph

    checkpoint = next((name for name in models if find_graph(name) is None), None)
    if models and checkpoint is None:
        return need_packages("adopting a graph", ("onnx", "jinja2"), "adopt")
    names = ["torch", "transformers", "optimum", "onnx", "onnxscript"]
    names += ["gguf"] if any(find_gguf(name) for name in models) else []
    need_packages(f"exporting {checkpoint}" if checkpoint else "exporting", names, "all")
