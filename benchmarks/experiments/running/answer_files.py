"""Answers on disk: .npz files of flat arrays, with a row for each token of an answer.

Ids are uint16 and probabilities are float16; rows are normalised when they are read.
"""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError
from omnidraft.learning.positions.target_rows import Probabilities, TargetRows


class Texts(NamedTuple):
    """The ids of an answer.

    Attributes:
        prompt: in target ids.
        draft_prompt: in draft ids, without the start token.
        tokens: the answer, in target ids.
    """

    prompt: tuple[int, ...]
    draft_prompt: tuple[int, ...]
    tokens: tuple[int, ...]


Arrays = dict[str, npt.NDArray[Any]]


def write(path: Path, texts: Sequence[Texts], arrays: Arrays) -> None:
    """Write the ids of answers, and arrays that belong to them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in Texts._fields:
        lists = [np.array(getattr(each, name), dtype=np.uint16) for each in texts]
        lengths = np.array([len(each) for each in lists], dtype=np.int32)
        arrays = arrays | {name: np.concatenate(lists), f"{name}_lengths": lengths}
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.replace(path)


def read(path: Path) -> tuple[Arrays, Iterator[tuple[Texts, slice]]]:
    """The arrays, and of each answer its ids and where its rows are in arrays that have one for each token.

    Raises:
        SettingError: the file cannot be read.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays: Arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SettingError(f"{path} cannot be read ({error})", "delete it and run this again") from None
    return arrays, _texts(arrays)


def _texts(arrays: Arrays) -> Iterator[tuple[Texts, slice]]:
    ends = {name: np.cumsum(arrays[f"{name}_lengths"]) for name in Texts._fields}
    lists = [np.split(arrays[name].astype(np.int64), ends[name][:-1]) for name in Texts._fields]
    for end, *ids in zip(ends["tokens"].tolist(), *lists, strict=True):
        texts = Texts(*(tuple(each.tolist()) for each in ids))
        yield texts, slice(end - len(texts.tokens), end)


def target_rows(ids: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> TargetRows:
    """Rows of stored ids and probabilities, normalised."""
    return TargetRows(ids.astype(np.int32), *normalised(probabilities))


def normalised(probabilities: npt.NDArray[Any]) -> tuple[Probabilities, Probabilities]:
    """Rows whose sums are at most 1, which float16 may round up, and what they leave of it."""
    rows = probabilities.astype(np.float64)
    rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
    return rows, np.maximum(1.0 - rows.sum(axis=1), 0.0)
