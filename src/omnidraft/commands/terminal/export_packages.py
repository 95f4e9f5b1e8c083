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
        models: what is exported, directories or hub ids.

    Raises:
        SettingError: a package is missing.
    """
    from omnidraft.checkpoints.gguf.find import find_gguf

    names = ["torch", "transformers", "optimum", "onnx", "onnxscript"]
    names += ["gguf"] if any(find_gguf(name) for name in models) else []
    need_packages(f"exporting {models[0]}" if models else "exporting", names, "all")
