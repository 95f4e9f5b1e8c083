"""Measure a written pair: parity with torch, acceptance in float32 and as shipped, seconds of passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnidraft.checkpoints.checkpoint import Checkpoint
from omnidraft.errors import PromptError
from omnidraft.export.model_export import ModelExport
from omnidraft.export.quantize.parity import (
    Acceptance,
    Parity,
    measure_acceptance,
    parity_of,
    refuse_collapse,
    torch_rows,
)
from omnidraft.export.quantize.quantization import FP32
from omnidraft.mixed_prompts import unseen_prompts
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.drafter import Drafter, no_drafter
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.threads import threads_for
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.measure import measure_costs
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.vocab_map import VocabMap
from omnidraft.sample_prompts import PROMPTS

_TRIED = 64  # tokens of a text in the default mode
Models = tuple[ModelExport, ...]  # the target, and the drafter if there is one
PromptIds = tuple[list[int], list[int]]  # one prompt as target ids and as draft ids


def prompt_ids(
    target: ModelExport, drafter: ModelExport | None, template: PromptTemplate, most: int
) -> list[PromptIds]:
    """The built-in prompts in the ids of both models, at most `most` target ids each."""
    prompts: list[PromptIds] = []
    prefix, suffix = template.parts(1)
    for text in PROMPTS:
        ids = target.tokenizer.encode_prompt(prefix, text, suffix)[:most]
        visible = target.tokenizer.text_of(ids).decode("utf-8", "replace")
        prompts.append((ids, [] if drafter is None else drafter.tokenizer.encode(visible)))
    return prompts


def acceptance_before(
    work: Path, models: Models, vocab_map: VocabMap, prompts: Sequence[PromptIds]
) -> Acceptance:
    """The drafter's acceptance in float32; a model whose float32 graph lacks layers runs as it ships."""
    target, drafter = (
        model.reference_model(work) if model.whole_reference else model.shipped_model(work)
        for model in models
    )
    start = models[1].start
    return measure_acceptance(target, Drafter(drafter, start), lambda: NgramCache(vocab_map), prompts)


def measure_shipped(
    work: Path,
    models: Models,
    vocab_map: VocabMap,
    prompts: Sequence[PromptIds],
    before: Acceptance,
    quantization: str,
) -> tuple[Acceptance, Costs]:
    """The drafter's acceptance with both models as they ship, and the seconds of their passes."""
    target, drafter = models
    decoder_models = DecoderModels(
        target.shipped_model(work, threads_for(target.parameters)),  # as a runtime runs it
        Drafter(drafter.shipped_model(work), drafter.start),
        NgramCache(vocab_map),
    )
    after = measure_acceptance(
        decoder_models.target, decoder_models.drafter, lambda: NgramCache(vocab_map), prompts
    )
    refuse_collapse(before, after, quantization)
    return after, measure_costs(decoder_models, *prompts[0], after.of_evaluated)


def measure_target(work: Path, target: ModelExport, vocab_map: VocabMap, prompt: PromptIds) -> Costs:
    """The seconds of the passes of a target without a drafter."""
    model = target.shipped_model(work, threads_for(target.parameters))
    models = DecoderModels(model, no_drafter(vocab_map.draft_size), NgramCache(vocab_map))
    return measure_costs(models, *prompt, 0.0, drafts=False)


def default_mode(work: Path) -> tuple[Statistics, ...]:
    """What the default mode does in built-in prompts of several kinds, by the costs of the manifest."""
    session = load(work, measure="never")
    texts = []
    for _, prompt in unseen_prompts():
        try:
            counts = session.generate(prompt, max_new_tokens=_TRIED, seed=0).finish().statistics
        except PromptError:
            continue
        texts.append(counts)
    return tuple(text for text in texts if text.emitted)


def compare_model(
    work: Path, model: ModelExport, prompts: Sequence[Sequence[int]], quantization: str
) -> dict[str, Parity]:
    """Parity with torch of the float32 graph and of the shipped graph, one model in memory at a time."""
    assert isinstance(model.checkpoint, Checkpoint), "an adopted graph has no checkpoint to compare with"
    rows = torch_rows(model.checkpoint, prompts)
    shipped = {quantization: parity_of(model.shipped_model(work), prompts, rows)}
    if not model.whole_reference:
        rows = torch_rows(model.checkpoint, prompts, model.reference_layers)
    return {FP32.name: parity_of(model.reference_model(work), prompts, rows), **shipped}


def limits(models: Sequence[ModelExport]) -> tuple[str, ...]:
    """One sentence for each model that was compared only in part because of memory."""
    sentences = []
    for model in models:
        if model.whole_reference:
            continue
        role, layers, needed = model.role, model.checkpoint.shape.num_layers, 4 * model.parameters / 1e9
        sentences.append(
            f"the {role}'s float32 graph was compared with torch in its first {model.reference_layers} of "
            f"{layers} layers, and acceptance before quantisation was measured with the {role} as it ships: "
            f"all of its float32 weights are {needed:.1f} GB, more than the checks may hold"
        )
    return tuple(sentences)
