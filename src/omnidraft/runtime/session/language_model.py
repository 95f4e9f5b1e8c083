"""A loaded bundle: graphs, tokenizers and vocabulary map, which sessions share and never change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.hashes import VERIFIES, Verify, check_unchanged
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.bundle.placement import CPU_GRAPH, placed
from omnidraft.runtime.bundle.signature import PublicKey
from omnidraft.runtime.chat.output_text import OutputText
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.device.device_costs import MEASURES, DeviceCosts, Measure, device_costs
from omnidraft.runtime.device.machine import Machine
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.models.load_graph import load_graph
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.models.static_model import StaticGraphs
from omnidraft.runtime.models.threads import check_threads, drafter_threads, threads_for
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.measure import machine_here, measure_within
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap, load_vocab_map

MEASURE_SECONDS = 1.5  # for timing a device; a pass that has begun then is finished
MEASURED_TEXT = "How many legs do 3 cats have? Count the legs of each cat, and add them up."
MEASURED_TOKENS, LEAST_CONTEXT = 16, 64  # tokens of that text, and positions that timing takes at most


def draft_text(target: Tokenizer, drafter: Tokenizer, ids: Sequence[int]) -> list[int]:
    """The visible text of target ids, encoded by the drafter's tokenizer; control tokens have no text."""
    return drafter.encode(target.text_of(ids).decode("utf-8", "replace"))


@dataclass(frozen=True)
class LanguageModel:
    """The graphs, tokenizers and vocabulary map of a bundle.

    Any number of sessions may share it, each in its own thread: nothing here changes after loading.

    Attributes:
        target: the target's graph, or its static graphs for an NPU.
        vocab_map: how the drafter's tokens spell the target's.
        drafter, drafter_tokenizer: as for the target; None where it was not loaded, or the bundle has none.
        device: costs on this device, and where they come from; None where the bundle's are used unasked.
    """

    bundle: Bundle
    target: Graph | StaticGraphs
    target_tokenizer: Tokenizer
    vocab_map: VocabMap
    drafter: Graph | StaticGraphs | None
    drafter_tokenizer: Tokenizer | None
    device: DeviceCosts | None = None

    @property
    def costs(self) -> Costs:
        """Seconds that the draft length "auto" begins with."""
        return self.bundle.costs if self.device is None else self.device.costs

    def draft_prompt(self, prompt_ids: Sequence[int]) -> list[int]:
        """The visible text of a prompt in draft ids; empty without a drafter."""
        if self.drafter_tokenizer is None:
            return []
        return draft_text(self.target_tokenizer, self.drafter_tokenizer, prompt_ids)

    @cached_property
    def target_trie(self) -> ByteTrie:
        """The bytes of the target's tokens, for grammars."""
        return ByteTrie(self.target_tokenizer.tokens, self.bundle.target.vocab_size)

    @cached_property
    def draft_trie(self) -> ByteTrie:
        """The bytes of the drafter's tokens; there is a drafter."""
        assert self.drafter_tokenizer is not None
        return ByteTrie(self.drafter_tokenizer.tokens, self.bundle.drafter.vocab_size)

    @cached_property
    def output_text(self) -> OutputText:
        """Reads the ids of outputs as text."""
        prompt, tokenizer = self.bundle.prompt, self.target_tokenizer
        calls = None if prompt.tool_form is None else prompt.tool_form.calls
        return OutputText(tokenizer, prompt.think, self.vocab_map.bytes_of, calls)


def load_bundle(
    bundle: Bundle | str | Path,
    *,
    threads: int | None = None,
    drafter: bool = True,
    target_on: str = CPU_GRAPH,
    drafter_on: str = CPU_GRAPH,
    public_key: PublicKey | None = None,
    verify: Verify = "auto",
    measure: Measure = "auto",
) -> LanguageModel:
    """Load the graphs of a bundle once, for any number of sessions.

    Args:
        bundle: from `open_bundle`, or its directory.
        threads: of a target pass; by the target's size when None. A drafter takes two of them at most.
        drafter: whether to load the drafter; without it only mode lookup drafts anything.
        target_on, drafter_on: where each of them runs (see `placement.placed`).
        public_key: of the signer; a bundle without a signature by this key is refused. `open_bundle` checks
            the signature, so a `Bundle` must have been opened with the key.
        verify: how its files are checked, where `bundle` is a directory (see `open_bundle`).
        measure: "auto" times this device first, for less than two seconds, where neither the bundle nor this
            device has costs of it; "always" times it anyhow; "never" takes the bundle's costs.

    Raises:
        BundleError, VocabMapError, TokenizerError: the bundle is damaged, incomplete or unsigned.
        SettingError: the bundle has no graphs for a place, the public key is not a key, or another argument
            is out of its range.
    """
    LoadOptions(threads, drafter, target_on, drafter_on, public_key, verify, measure).check()
    opened = bundle if isinstance(bundle, Bundle) else open_bundle(bundle, public_key, verify)
    assert public_key is None or opened.signed_by, "the signature is checked where the bundle is opened"
    opened = placed(opened, target_on=target_on, drafter_on=drafter_on)
    drafter = drafter and not opened.drafter.is_absent
    target_tokenizer = load_tokenizer(opened, opened.target)
    drafter_tokenizer = load_tokenizer(opened, opened.drafter) if drafter else None
    vocab_map = load_vocab_map(opened.file(opened.vocab_map))
    vocab_map.check_fits(
        drafter_tokenizer.fingerprint if drafter_tokenizer else vocab_map.draft_fingerprint,
        target_tokenizer.fingerprint,
        opened.drafter.vocab_size,
        opened.target.vocab_size,
    )
    threads = threads_for(opened.target.parameters) if threads is None else threads
    small = drafter_threads(opened.drafter.parameters, threads)
    loaded = LanguageModel(
        bundle=opened,
        target=load_graph(opened, opened.target, threads),
        target_tokenizer=target_tokenizer,
        vocab_map=vocab_map,
        drafter=load_graph(opened, opened.drafter, small) if drafter else None,
        drafter_tokenizer=drafter_tokenizer,
    )
    check_unchanged(opened.places, opened.stamps)
    machine = machine_here(opened, threads, target_on, drafter_on)
    return replace(loaded, device=_device_costs(loaded, machine, measure))


def _device_costs(loaded: LanguageModel, machine: Machine, measure: Measure) -> DeviceCosts:
    """The costs of the models here; they are timed where nothing is known of this machine."""
    bundle, drafter = loaded.bundle, loaded.drafter

    def timed() -> Costs | None:
        ids = loaded.target_tokenizer.encode(MEASURED_TEXT)[:MEASURED_TOKENS]
        shortest = min(bundle.target.kv.max_length, bundle.drafter.kv.max_length)
        if drafter is None or not ids or shortest < LEAST_CONTEXT:
            return None
        start = [] if bundle.drafter.bos_id is None else [bundle.drafter.bos_id]
        cache, target = NgramCache(loaded.vocab_map), loaded.target.new_model()
        models = DecoderModels(target, Drafter(drafter.new_model(), start), cache)
        return measure_within(models, ids, loaded.draft_prompt(ids), MEASURE_SECONDS)

    return device_costs(bundle.manifest["seal"], bundle.costs, bundle.measured_on, machine, measure, timed)


def load_tokenizer(bundle: Bundle, entry: ModelEntry) -> Tokenizer:
    """The tokenizer of a model of a bundle: the compiled one, or the library's where there is none.

    Raises:
        TokenizerError: it cannot be read.
    """
    if entry.compiled_tokenizer is not None:
        return CompiledTokenizer.from_file(bundle.file(entry.compiled_tokenizer))
    from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer  # the library takes time to load

    return LibraryTokenizer.from_file(bundle.file(entry.tokenizer))


@dataclass(frozen=True)
class LoadOptions:
    """How to load a bundle; for the attributes see `load_bundle`."""

    threads: int | None = None
    drafter: bool = True
    target_on: str = CPU_GRAPH
    drafter_on: str = CPU_GRAPH
    public_key: PublicKey | None = None
    verify: Verify = "auto"
    measure: Measure = "auto"

    def check(self) -> None:
        """Refuse a value that no bundle can be loaded with.

        Raises:
            SettingError: naming the value.
        """
        if self.threads is not None:
            check_threads(self.threads)
        for name, place in (("target_on", self.target_on), ("drafter_on", self.drafter_on)):
            if not isinstance(place, str):
                raise SettingError(f"{name} {place!r:.40} is not a string", "leave it out", setting=name)
        for name, value, known in (("verify", self.verify, VERIFIES), ("measure", self.measure, MEASURES)):
            if value not in known:
                names = f"{', '.join(known[:-1])} or {known[-1]}"
                raise SettingError(f"{name} {value!r:.40} is not {names}", "leave it out", setting=name)

    def open(self, path: Path) -> Bundle:
        """The bundle in a directory, checked as these options say."""
        return open_bundle(path, self.public_key, self.verify)

    def load(self, bundle: Bundle) -> LanguageModel:
        """The graphs of a bundle that `open` has opened."""
        return load_bundle(bundle, **vars(self))
