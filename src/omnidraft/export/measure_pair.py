"""Measure a written pair: acceptance in float32 and as shipped, and the seconds of the passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omnidraft.errors import PromptError
from omnidraft.export.model_export import ModelExport
from omnidraft.export.quantize.parity import Acceptance, measure_acceptance, refuse_collapse
from omnidraft.mixed_prompts import unseen_prompts
from omnidraft.pair_verdict import CountedText, counted_text
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.drafter import Drafter, no_drafter
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.session.api import load
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.loaded_bundle import threads_for
from omnidraft.runtime.session.measure import measure_costs
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
    """The drafter's acceptance with both models as they ship, and the seconds of their passes.

    Args:
        prompts: what to measure on; the costs are measured on the first.

    Raises:
        ExportError: quantisation broke the drafter.
    """
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
    return after, replace(measure_costs(decoder_models, *prompts[0]), acceptance=after.of_evaluated)


def measure_target(work: Path, target: ModelExport, vocab_map: VocabMap, prompt: PromptIds) -> Costs:
    """The seconds of the passes of a target without a drafter."""
    model = target.shipped_model(work, threads_for(target.parameters))
    models = DecoderModels(model, no_drafter(vocab_map.draft_size), NgramCache(vocab_map))
    return replace(measure_costs(models, *prompt, drafts=False), acceptance=0.0)


def default_mode(work: Path) -> tuple[CountedText, ...]:
    """What the default mode does in built-in prompts of several kinds, by the costs of the manifest.

    Args:
        work: a bundle; a prompt that does not fit its context is left out.
    """
    session = load(work, measure="never")
    texts = []
    for _, prompt in unseen_prompts():
        try:
            counts = session.generate(prompt, max_new_tokens=_TRIED, seed=0).finish().statistics
        except PromptError:
            continue
        texts.append(counted_text(counts))
    return tuple(text for text in texts if text.emitted)
