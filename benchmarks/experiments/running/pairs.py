"""The starter pairs as bundles in the work directory: all in fp32, with places for adapters."""

from functools import cache
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from omnidraft.commands.demo import starter
from omnidraft.errors import BundleError
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import FP32
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.loaded_bundle import LoadedBundle, load_bundle
from omnidraft.runtime.session.session import Session

TARGETS = ("a", "b")


def bundle(work: Path, target: str) -> Path:
    """The bundle of a pair, exported where it is not there yet."""
    path = work / "bundles" / target
    try:
        whole = open_bundle(path).drafter.head is not None
    except BundleError:
        whole = False
    if not whole:  # also one that was exported before drafters had heads
        path.parent.mkdir(parents=True, exist_ok=True)
        options = Options(FP32, drafter_quantization=FP32, overwrite=True)
        export_bundle(str(starter(target)), str(starter("drafter")), path, options)
    return path


@cache
def weights(work: Path, target: str) -> LoadedBundle:
    """What is loaded of a pair, once."""
    return load_bundle(bundle(work, target), threads=1)


def encode(pair: LoadedBundle, prompt: str) -> tuple[list[int], list[int]]:
    """A prompt inside its template in target ids, and in draft ids without their start."""
    session = Session(pair)
    ids = session.encode(prompt)
    return ids, session.draft_prompt(ids)


def torch_model(name: str) -> PreTrainedModel:
    """A starter in torch: a, b or drafter."""
    found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(starter(name), dtype=torch.float32)
    return found
