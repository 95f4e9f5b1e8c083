"""A loaded bundle: graphs, tokenizers and vocabulary map, which sessions share and never change."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.checked_files import checked_graph
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.bundle.placement import CPU_GRAPH, placed
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.chat.output_text import OutputText
from omnidraft.runtime.decoding.baselines import Verification
from omnidraft.runtime.decoding.draft_length import (
    Costs,
    DraftLength,
    FixedLength,
    LengthState,
    MeasuredLength,
)
from omnidraft.runtime.decoding.verifier import block_pays
from omnidraft.runtime.models.concat_model import ConcatGraph
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs
from omnidraft.runtime.session.generation_config import GenerationConfig
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map

THREADS_PER_CORE = 4  # at most; more only take memory and time
USUAL_DRAFT = 4  # draft tokens of the round by which a verification is chosen


@dataclass(frozen=True)
class LoadedBundle:
    """The graphs, tokenizers and vocabulary map of a bundle.

    Any number of sessions may share it, each in its own thread: nothing here changes after loading.

    Attributes:
        bundle: on disk.
        target: the target's graph, or its static graphs for an NPU.
        target_tokenizer: the target's tokenizer.
        vocab_map: how the drafter's tokens spell the target's.
        drafter, drafter_tokenizer: as for the target; None where the drafter was not loaded.
    """

    bundle: Bundle
    target: Graph | StaticGraphs
    target_tokenizer: Tokenizer
    vocab_map: VocabMap
    drafter: Graph | StaticGraphs | None
    drafter_tokenizer: Tokenizer | None

    def draft_prompt(self, prompt_ids: Sequence[int]) -> list[int]:
        """The visible text of a prompt in draft ids; empty without a drafter."""
        if self.drafter_tokenizer is None:
            return []
        return self.drafter_tokenizer.encode(
            self.target_tokenizer.text_of(prompt_ids).decode("utf-8", "replace")
        )

    @cached_property
    def output_text(self) -> OutputText:
        """Reads the ids of outputs as text."""
        return OutputText(self.target_tokenizer, self.bundle.prompt.think, self.vocab_map.bytes_of)


def load_bundle(
    bundle: Bundle | str | Path,
    *,
    threads: int | None = None,
    drafter: bool = True,
    target_on: str = CPU_GRAPH,
    drafter_on: str = CPU_GRAPH,
    public_key: PublicKey | None = None,
    ort_format: bool = False,
) -> LoadedBundle:
    """Load the graphs of a bundle once, for any number of sessions.

    Args:
        bundle: from `open_bundle`, or its directory.
        threads: of a target pass; by the target's size when None. The drafter always runs on one.
        drafter: whether to load the drafter; without it only mode lookup drafts anything.
        target_on, drafter_on: where each of them runs (see `placement.placed`).
        public_key: of the signer; a bundle without a signature by this key is refused. `open_bundle` checks
            the signature, so a `Bundle` must have been opened with the key.
        ort_format: load the bundle's .ort files instead of its .onnx graphs.

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is damaged, incomplete or unsigned.
        SettingError: the bundle has no graphs for a place, the public key is not a key, or the number of
            threads is out of range.
    """
    if threads is not None:
        check_threads(threads)
    opened = bundle if isinstance(bundle, Bundle) else open_bundle(bundle, public_key)
    assert public_key is None or opened.signed_by, "the signature is checked where the bundle is opened"
    opened = placed(
        _with_ort_files(opened) if ort_format else opened, target_on=target_on, drafter_on=drafter_on
    )
    target_tokenizer = load_tokenizer(opened, opened.target)
    drafter_tokenizer = load_tokenizer(opened, opened.drafter) if drafter else None
    vocab_map = load_vocab_map(opened.file(opened.vocab_map))
    vocab_map.check_fits(
        drafter_tokenizer.fingerprint if drafter_tokenizer else vocab_map.draft_fingerprint,
        target_tokenizer.fingerprint,
        opened.drafter.vocab_size,
        opened.target.vocab_size,
    )
    threads = _threads_for(opened.target.parameters) if threads is None else threads
    loaded = LoadedBundle(
        bundle=opened,
        target=_graph(opened, opened.target, threads),
        target_tokenizer=target_tokenizer,
        vocab_map=vocab_map,
        drafter=_graph(opened, opened.drafter, 1) if drafter else None,
        drafter_tokenizer=drafter_tokenizer,
    )
    check_unchanged(opened.places, opened.stamps)
    return loaded


def load_tokenizer(bundle: Bundle, entry: ModelEntry) -> Tokenizer:
    """The tokenizer of a model of a bundle: the compiled one, or the library's where there is none.

    Raises:
        TokenizerError: it cannot be read.
    """
    if entry.compiled_tokenizer is not None:
        return CompiledTokenizer.from_file(bundle.file(entry.compiled_tokenizer))
    from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer  # the library takes time to load

    return LibraryTokenizer.from_file(bundle.file(entry.tokenizer))


def load_drafter(bundle: Bundle) -> Graph | StaticGraphs:
    """The drafter's graph alone, for work that needs no target.

    Raises:
        BundleError: it cannot be loaded, or a file of the bundle was changed meanwhile.
    """
    drafter = _graph(bundle, bundle.drafter, 1)
    check_unchanged(bundle.places, bundle.stamps)
    return drafter


def _with_ort_files(bundle: Bundle) -> Bundle:
    if bundle.ort is None:
        raise BundleError(f"{bundle.path} holds no .ort files", "export it again with --ort", fault="graph")
    target = replace(bundle.target, graph=bundle.ort.target)
    return replace(bundle, target=target, drafter=replace(bundle.drafter, graph=bundle.ort.drafter))


def _graph(bundle: Bundle, entry: ModelEntry, threads: int) -> Graph | StaticGraphs:
    place = entry.place
    if place is not None:
        return StaticGraphs(static_form(bundle, entry), place.provider, threads=threads)
    kind = ConcatGraph if entry.layout == "concat" else Graph
    return kind(checked_graph(bundle, entry.graph), entry.kv, entry.vocab_size, threads=threads)


def static_form(bundle: Bundle, entry: ModelEntry) -> StaticForm:
    """The static graphs of a model that was placed on them."""
    place = entry.place
    assert place is not None
    graphs = {block: checked_graph(bundle, name) for block, name in place.form.graphs.items()}
    return StaticForm(graphs, bundle.file(place.host), entry.kv, entry.vocab_size, place.form.mask)


def check_threads(threads: int) -> None:
    """Refuse a number of threads that this machine would only suffer from.

    Raises:
        SettingError: fewer than one, or more than four for each core.
    """
    most = THREADS_PER_CORE * (os.cpu_count() or 1)
    if not 1 <= threads <= most:
        raise SettingError(
            f"threads {threads} is outside 1..{most}, {THREADS_PER_CORE} for each core of this machine",
            "leave it out, and the target's size decides",
            setting="threads",
        )


def _threads_for(parameters: int) -> int:
    """Threads of a target pass; waking threads costs a small model more time than they save."""
    return 1 if parameters < 50_000_000 else min(8, os.cpu_count() or 1)


def drafts(config: GenerationConfig, loaded: LoadedBundle) -> bool:
    """Whether a generation can draft anything."""
    return config.copies or (config.asks_drafter and loaded.drafter is not None)


def draft_length_for(
    config: GenerationConfig, loaded: LoadedBundle, costs: Costs, state: LengthState
) -> DraftLength:
    """The draft length of a generation; without a drafter it can only copy.

    Args:
        config: of the generation.
        loaded: the bundle.
        costs: of this device.
        state: what earlier texts taught; "auto" changes it.
    """
    if not drafts(config, loaded):
        return FixedLength(0)
    threshold = None if config.head_threshold == "auto" else config.head_threshold
    if config.num_draft_tokens == "auto":
        asked = config.asks_drafter and loaded.drafter is not None
        return MeasuredLength(costs, state, drafts=asked, copies=config.copies, head_threshold=threshold)
    source: Literal["draft", "copy"] = "copy" if config.mode == "lookup" else "draft"
    return FixedLength(config.num_draft_tokens, 1.0 if threshold is None else threshold, source)


def verification_for(config: GenerationConfig, loaded: LoadedBundle) -> Verification:
    """How a generation's drafts are verified; "auto" decides by the length of a usual round.

    The decision uses the bundle's costs, not those measured here: a seed then repeats a text on every device.
    """
    if config.verification != "auto":
        return config.verification
    seconds = loaded.bundle.costs.round_seconds(USUAL_DRAFT)
    return "block" if block_pays(seconds, loaded.bundle.target.vocab_size) else "token"
