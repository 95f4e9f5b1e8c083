"""Which of the models that a user names is a graph already, and which file of a directory that is."""

from __future__ import annotations

from pathlib import Path

from omnidraft.errors import CheckpointError

_CHECKPOINT = ("*.safetensors", "pytorch_model*.bin")
_USUAL = ("model", "decoder_model_merged")  # what Optimum calls a decoder; the second one before version 1.14


def find_graph(name: str) -> Path | None:
    """The graph that `name` is or holds; None where it is a checkpoint, a hub id or nothing.

    A directory with weights of a checkpoint counts as one, whatever lies in its folder `onnx`: to adopt such
    a graph, name its file.

    Raises:
        CheckpointError: the graphs that are there are not those of one decoder.
    """
    path = Path(name).expanduser()
    if path.suffix == ".onnx" and path.is_file():
        return path
    if not path.is_dir() or any(True for pattern in _CHECKPOINT for _ in path.glob(pattern)):
        return None
    found = sorted(path.glob("*.onnx")) or sorted(path.glob("onnx/*.onnx"))
    return _choose(name, found) if found else None


def _choose(name: str, found: list[Path]) -> Path:
    by_stem = {file.stem: file for file in found}
    if "encoder_model" in by_stem:
        raise CheckpointError(f"{name} is an encoder-decoder (it has encoder_model.onnx)", "use a decoder")
    usual = next((by_stem[stem] for stem in _USUAL if stem in by_stem), None)
    if usual is None and "decoder_with_past_model" in by_stem:
        raise CheckpointError(
            f"{name} is split into decoder_model.onnx and decoder_with_past_model.onnx",
            "export it again with optimum-onnx 0.1, which makes one model.onnx of both",
        )
    if usual is None and len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise CheckpointError(f"{name} holds {len(found)} graphs ({names})", "give the path of one of them")
    return usual or found[0]
