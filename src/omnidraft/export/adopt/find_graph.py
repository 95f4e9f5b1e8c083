"""Find out whether the model that a user names is a graph, and which file it is."""

from __future__ import annotations

from pathlib import Path

from omnidraft.errors import CheckpointError

_CHECKPOINT = ("*.safetensors", "pytorch_model*.bin")
_USUAL = (
    "model",
    "decoder_model_merged",
)  # Optimum's names for a decoder; the second is of versions before 1.14


def find_graph(name: str) -> Path | None:
    """The graph that `name` is or holds; None where it is a checkpoint, a hub id or nothing.

    A directory that holds weights of a checkpoint counts as a checkpoint even if it has a folder `onnx`: to
    adopt a graph in that folder, name its file.
    """
    path = Path(name).expanduser()
    if path.suffix == ".onnx" and path.is_file():
        return path
    if not path.is_dir() or any(True for pattern in _CHECKPOINT for _ in path.glob(pattern)):
        return None
    graphs = sorted(path.glob("*.onnx")) or sorted(path.glob("onnx/*.onnx"))
    return _choose(name, graphs) if graphs else None


def _choose(name: str, graphs: list[Path]) -> Path:
    by_stem = {file.stem: file for file in graphs}
    if "encoder_model" in by_stem:
        raise CheckpointError(f"{name} is an encoder-decoder (it has encoder_model.onnx)", "use a decoder")
    usual = next((by_stem[stem] for stem in _USUAL if stem in by_stem), None)
    if usual is None and "decoder_with_past_model" in by_stem:
        raise CheckpointError(
            f"{name} is split into decoder_model.onnx and decoder_with_past_model.onnx",
            "export it again with optimum-onnx 0.1, which writes one model.onnx",
        )
    if usual is None and len(graphs) > 1:
        names = ", ".join(file.name for file in graphs)
        raise CheckpointError(f"{name} holds {len(graphs)} graphs ({names})", "give the path of one of them")
    return usual or graphs[0]
