"""The starter pairs as bundles in the work directory: all in fp32, with inputs for adapters."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from omnidraft.commands.starters import starter
from omnidraft.errors import BundleError
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import FP32
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.loaded_bundle import LoadedBundle, load_bundle
from omnidraft.runtime.session.session import Session

TARGETS = ("a", "b")


def bundle(work: Path, target: str) -> Path:
    """The bundle of a pair; exported if it does not exist."""
    path = work / "bundles" / target
    try:
        open_bundle(path)
    except BundleError:  # absent
        path.parent.mkdir(parents=True, exist_ok=True)
        options = Options(FP32, drafter_quantization=FP32, overwrite=True)
        export_bundle(str(starter(target)), str(starter("drafter")), path, options)
    return path


@cache
def load_pair(work: Path, target: str) -> LoadedBundle:
    """The loaded bundle of a pair; loaded once."""
    return load_bundle(bundle(work, target), threads=1)


def encode(pair: LoadedBundle, prompt: str) -> tuple[list[int], list[int]]:
    """A prompt inside its template, in target ids and in draft ids without the start token."""
    session = Session(pair)
    ids = session.encode(prompt)
    return ids, session.draft_prompt(ids)


def fitting(pair: LoadedBundle, texts: Sequence[str], most: int) -> dict[int, tuple[list[int], list[int]]]:
    """The prompts that fit a number of target ids, encoded, by their indices among the texts.

    The shortest is the first: so the prompts of a batch are of similar lengths.
    """
    prompts = ((place, encode(pair, text)) for place, text in enumerate(texts))
    kept = [(place, ids) for place, ids in prompts if len(ids[0]) <= most]
    return dict(sorted(kept, key=lambda each: len(each[1][0])))


def torch_model(name: str) -> PreTrainedModel:
    """A starter model in torch: a, b or drafter."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(starter(name), dtype=torch.float32)
    return model
