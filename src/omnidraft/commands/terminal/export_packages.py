"""Whether the packages that an export needs are installed."""

import platform
from importlib.util import find_spec

from omnidraft.errors import SettingError, install


def need_export_packages(*models: str) -> None:
    """Refuse to export where a package is missing, with the command that installs it.

    Args:
        models: what is exported, directories or hub ids; checkpoints where there is none. Graphs of Optimum
            are adopted without torch.

    Raises:
        SettingError: a package is missing.
    """
    from omnidraft.checkpoints.gguf.find import find_gguf
    from omnidraft.export.adopt.find_graph import find_graph

    checkpoint = next((name for name in models if find_graph(name) is None), None)
    if models and checkpoint is None:
        if missing := [name for name in ("onnx", "jinja2") if not find_spec(name)]:
            raise SettingError(
                f"adopting a graph needs {' and '.join(missing)}, which this Python does not have",
                install("adopt"),
            )
        return
    names = ["torch", "transformers", "optimum", "onnx", "onnxscript"]
    names += ["gguf"] if any(find_gguf(name) for name in models) else []
    if missing := [name for name in names if not find_spec(name)]:
        raise SettingError(
            f"exporting {checkpoint + ' ' if checkpoint else ''}needs {', '.join(missing)}, "
            f"which this Python ({platform.python_version()}) does not have",
            f"{install('all')} with Python 3.11, 3.12 or 3.13",
        )
