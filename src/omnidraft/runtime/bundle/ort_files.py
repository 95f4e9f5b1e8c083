"""The .ort files of a bundle: its CPU graphs again, in the form that onnxruntime's minimal builds load."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OrtFiles:
    """Where a bundle keeps its .ort files (spec/bundle.md).

    Attributes:
        target, drafter: paths of the graphs, weights inside.
        required_operators: path of the list that a reduced build of onnxruntime is made with.
        style: how they were optimised; `runtime` or `fixed`. onnxruntime: the version that wrote them.
    """

    target: str
    drafter: str
    required_operators: str
    style: str
    onnxruntime: str

    @property
    def paths(self) -> tuple[str, str, str]:
        """Paths of all of them."""
        return self.target, self.drafter, self.required_operators


def read_ort_files(data: Any) -> OrtFiles | None:
    """The manifest's field `ort`; None where a bundle has none.

    Raises:
        TypeError: a field of the wrong kind. ValueError: an unknown style. KeyError: a field is missing.
    """
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise TypeError(f"ort {data!r:.80} is no object")
    names = "target", "drafter", "required_operators", "style", "onnxruntime"
    values = [data[name] for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str):
            raise TypeError(f"ort.{name} {value!r:.80} is no text")
    found = OrtFiles(*values)
    if found.style not in ("runtime", "fixed"):
        raise ValueError(f"ort.style {found.style!r:.80} is neither runtime nor fixed")
    return found
