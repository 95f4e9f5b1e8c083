"""Write one model of a pair into a bundle: shipped graph, float32 graph for comparison, tokenizer.

The modules that need torch are imported inside functions: adopting a graph works without torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.checkpoints.control_tokens import write_tokenizer
from omnidraft.checkpoints.fingerprint import fingerprint
from omnidraft.errors import ExportError
from omnidraft.export.adopt.adopt import adopt
from omnidraft.export.adopt.optimum_directory import OptimumDirectory
from omnidraft.export.export_memory import layers_within
from omnidraft.export.graph.contract import tensor_specs
from omnidraft.export.graph.lora_inputs import add_lora_sites, lora_sites
from omnidraft.export.graph.passes import half_kv
from omnidraft.export.model_export import ModelExport
from omnidraft.export.options import Options
from omnidraft.export.quantize.parity import StepParity
from omnidraft.export.quantize.quantization import FP32, Quantization
from omnidraft.export.tokenizer.compile import write_compiled
from omnidraft.runtime.bundle.train_step_entry import StepEntry, layout_of

if TYPE_CHECKING:
    from omnidraft.checkpoints.thin_model import ThinModel
    from omnidraft.export.graph.markers import MarkedSite
    from omnidraft.export.graph.skeleton import Skeleton
    from omnidraft.export.quantize.coded import Factors

_MOST_KINDS = 6  # types of a GGUF file in the name of its form
NO_ADAPTERS = ("GPTNeoXForCausalLM",)  # its packed projection interleaves q, k and v head by head


@dataclass(frozen=True)
class WriteJob:
    """What every step of writing a model needs."""

    work: Path  # the directory of the bundle
    max_length: int  # positions of the KV buffers
    options: Options  # the export's options
    room: int | None = None  # bytes of weights that the float32 graph may have; None for no limit
    stage: Callable[[str], None] = lambda _: None  # called with the name of a step when the step begins


def write_model(model: ModelExport, job: WriteJob) -> int:
    """Write the shipped graph, the tokenizer and the float32 graph; fill in the attributes of `model`.

    Returns:
        Bytes of weights of the float32 graph.
    """
    folder = (job.work / model.graph).parent
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model.checkpoint, OptimumDirectory):
        model.contract = adopt(model.checkpoint, folder, job.max_length)
        model.parameters = model.checkpoint.parameters
        model.reference, model.reference_layers = model.graph, model.checkpoint.shape.num_layers
        reference_bytes = 0
    else:
        reference_bytes = _write_checkpoint(model, model.checkpoint, job)
    tokenizer_file = job.work / f"{model.role}/tokenizer.json"
    write_tokenizer(model.checkpoint.directory / "tokenizer.json", tokenizer_file, model.tokenizer)
    model.not_compiled = write_compiled(tokenizer_file, model.tokenizer)
    return reference_bytes


def _write_checkpoint(model: ModelExport, checkpoint: Checkpoint, job: WriteJob) -> int:
    from omnidraft.checkpoints.thin_model import thin_model
    from omnidraft.export.graph.skeleton import skeleton

    job.stage(f"trace the {model.role}")
    thin = thin_model(checkpoint)
    bare = skeleton(checkpoint, thin, job.max_length, lambda at: job.stage(f"trace the {model.role}, {at}"))
    model.parameters = _count_parameters(bare.proto, checkpoint)
    model.contract = replace(bare.contract, quantization=_form_name(model, checkpoint, job.options))
    model.fingerprint = fingerprint(checkpoint)
    model.sites, model.tied = bare.weights.sites, thin.tied
    reference_bytes = _write_reference(model, checkpoint, bare, job)
    _add_inputs(model, checkpoint, bare, job.options)
    if job.options.has_half_kv(model.role):
        graph = half_kv(bare.proto).graph
        inputs, outputs = tensor_specs(graph.input), tensor_specs(graph.output)
        model.contract = replace(model.contract, inputs=inputs, outputs=outputs, half_kv=True)
    _write_shipped(model, thin, bare, job)
    if _learns(model, job.options):
        model.train, model.train_parity = _write_step(model, thin, bare, job)
    return reference_bytes


def _form_name(model: ModelExport, checkpoint: Checkpoint, options: Options) -> str:
    """How the weights are stored, for people: `int4`, or `gguf-q4_k-q6_k` of a file whose codes are kept."""
    quantization = options.quantization_of(model.role)
    if not quantization.stored or checkpoint.gguf is None:
        return FP32.name if quantization.stored else quantization.name
    return "-".join(["gguf", *(kind.lower() for kind in checkpoint.gguf.kinds[:_MOST_KINDS])])


def _add_inputs(model: ModelExport, checkpoint: Checkpoint, bare: Skeleton, options: Options) -> None:
    """Add the inputs of adapters, if the options ask for them."""
    without = checkpoint.architecture in NO_ADAPTERS
    if without and model.role == "target" and options.lora_target:
        raise _no_adapters(model, "lora_target")
    if options.takes_adapters(model.role) and not without:
        add_lora_sites(bare.proto)
        model.lora = lora_sites(bare.proto, bare.contract.num_kv_heads * bare.contract.head_dim)


def _write_shipped(model: ModelExport, thin: ThinModel, bare: Skeleton, job: WriteJob) -> None:
    """Quantise the graph and write it."""
    from omnidraft.export.quantize.stream import write_skeleton

    form, factors = job.options.quantization_of(model.role), None
    if form.method == "gptq":
        factors = product_factors(model, job, thin, bare.weights.sites, form)
    write_skeleton(
        bare,
        form,
        job.work / model.graph,
        factors=factors,
        # The training step shares the weights that are in a file of their own.
        external_above=0 if _learns(model, job.options) else job.options.external_above,
        progress=counted(job, f"write the {model.role} as {form.name}", "weights"),
    )


def counted(job: WriteJob, what: str, things: str) -> Callable[[int, int], None]:
    """A function that tells how much of a step is done."""
    return lambda done, total: job.stage(f"{what}, {done} of {total} {things}")


def _learns(model: ModelExport, options: Options) -> bool:
    """Whether the bundle gets a training step of this model."""
    return model.role == "drafter" and options.train_rank is not None


def _write_step(
    model: ModelExport, thin: ThinModel, bare: Skeleton, job: WriteJob
) -> tuple[StepEntry, dict[str, StepParity]]:
    from omnidraft.export.train_step.train_step import step_parity, train_step, write_train_step

    rank = job.options.train_rank
    assert rank is not None
    if model.lora is None:
        raise _no_adapters(model, "--train-step")
    graph = job.work / model.graph
    job.stage("trace the training step, which takes minutes")
    step = train_step(thin, bare, layout_of(model.lora, rank))
    entry = write_train_step(graph, step, rank)
    job.stage("compare the training step with torch")
    return entry, step_parity(graph, step)


def _no_adapters(model: ModelExport, option: str) -> ExportError:
    name, architecture = model.checkpoint.name, model.checkpoint.architecture
    return ExportError(f"{name} is {architecture}, whose graphs do not take adapters", f"leave {option} out")


def product_factors(
    model: ModelExport, job: WriteJob, thin: ThinModel, sites: Sequence[MarkedSite], form: Quantization
) -> Factors:
    """What gptq needs of the inputs of each 4-bit product (`input_factors`).

    They are measured on text that the model writes itself, and on the calibration texts.
    """
    from omnidraft.checkpoints.thin_model import unpacked
    from omnidraft.export.choose.input_factors import input_factors
    from omnidraft.export.choose.own_text import own_text

    if not model.own_text:
        told = counted(job, f"let the {model.role} write text", "openings")
        special = model.checkpoint.shape.eos_ids, model.start
        model.own_text = own_text(unpacked(thin, job.room), model.tokenizer, model.prompt, special, told)
    given = [[*model.start, *model.tokenizer.encode(text)] for text in job.options.calibration or ()]
    rows = [row[: job.max_length] for row in (*given, *model.own_text) if row]
    told = counted(job, f"read text of the {model.role} for {form.name}", "rows")
    return input_factors(thin, sites, form, rows, told)


def _write_reference(model: ModelExport, checkpoint: Checkpoint, bare: Skeleton, job: WriteJob) -> int:
    """Write the float32 graph; only its first layers where all of them are more than `job.room` bytes.

    Returns:
        Bytes of its weights.
    """
    from omnidraft.checkpoints.thin_model import layer_period, thin_model
    from omnidraft.export.graph.skeleton import skeleton
    from omnidraft.export.quantize.stream import write_skeleton

    (job.work / "fp32").mkdir(exist_ok=True)
    layers = checkpoint.shape.num_layers
    layer_bytes = 4 * _count_parameters(bare.proto, checkpoint, "layers.") // layers
    outside = 4 * model.parameters - layers * layer_bytes
    fitting = layers_within(job.room, outside, layer_bytes, layers, layer_period(checkpoint.config))
    if fitting < layers:
        bare = skeleton(checkpoint, thin_model(checkpoint, fitting), bare.contract.max_length)
    model.reference, model.reference_layers = f"fp32/{model.role}.onnx", fitting
    write_skeleton(
        bare,
        FP32,
        job.work / model.reference,
        external_above=job.options.external_above,
        progress=counted(job, f"write the {model.role} as fp32, for comparison", "weights"),
    )
    return outside + fitting * layer_bytes


def _count_parameters(proto: ModelProto, checkpoint: Checkpoint, prefix: str = "") -> int:
    """Number of weights of a float32 graph; rotary tables and small constants are not counted."""
    sizes = [
        math.prod(tensor.dims)
        for tensor in proto.graph.initializer
        if tensor.name.startswith(prefix) and not tensor.name.startswith("rotary.")
    ]
    return sum(size for size in sizes if size >= checkpoint.shape.hidden_size)
