"""Write a graph weight by weight, in the form to store: memory holds one weight of the model at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from omnidraft.export.graph.skeleton import Skeleton
from omnidraft.export.graph.write import EXTERNAL_ABOVE, GraphWriter, shell_of
from omnidraft.export.quantize.coded import Factors, write_weight
from omnidraft.export.quantize.quantization import Quantization


def write_skeleton(
    skeleton: Skeleton,
    quantization: Quantization,
    path: Path,
    *,
    factors: Factors | None = None,
    external_above: int = EXTERNAL_ABOVE,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Path]:
    """Fill, quantise and write a graph; the skeleton is not changed.

    Args:
        factors: of the method gptq, see `write_weight`.
        progress: called with (weights written, all weights).

    Returns:
        The files written.

    Raises:
        ExportError: the disk is full.
    """
    shell, tensors, weights = shell_of(skeleton.proto), skeleton.proto.graph.initializer, skeleton.weights
    done, total = 0, sum(tensor.name in weights for tensor in tensors)
    with GraphWriter(path, external_above) as writer:
        for tensor in tensors:
            if tensor.name not in weights:
                writer.add(tensor)
                continue
            progress(done, total)
            done += 1
            made = write_weight(shell.graph, tensor.name, weights, quantization, factors)
            for name, values in made.items():
                writer.add_values(name, values)
        return writer.finish(shell)
