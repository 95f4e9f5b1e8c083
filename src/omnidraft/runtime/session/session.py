"""A session: one text or conversation on a loaded bundle, with the cache that learns from it.

Threads: one generation at a time in a session; a second one at the same moment is refused. Different
sessions may run in different threads at once, also on the same `LoadedBundle`. `Generation.cancel` may be
called from any thread.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from omnidraft.errors import SessionError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.decoding.draft_length import Costs, LengthState
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.session.conversation import Template, Turn, answer_ids, conversation_ids
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.generation import Emitted, Generation
from omnidraft.runtime.session.generation_config import (
    GenerationConfig,
    checked_text,
    overridden,
    prompt_ids,
)
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.measure import measure_costs
from omnidraft.runtime.session.session_models import SessionModels
from omnidraft.runtime.session.session_store import capture, read_session, restore, write_session
from omnidraft.runtime.session.start_generation import (
    Recording,
    generate_from_prompt,
    generate_from_state,
    turn,
)
from omnidraft.runtime.session.text_state import TextState
from omnidraft.runtime.traces.recorder import open_trace
from omnidraft.runtime.traces.trace_memory import TraceMemory
from omnidraft.runtime.traces.trace_store import TraceStore
from omnidraft.runtime.traces.tracer import Tracer
from omnidraft.runtime.vocab.cache_store import open_cache, write_cache
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap

DEFAULTS = GenerationConfig()


class Session:
    """A conversation on a loaded bundle, with its KV caches and n-gram cache.

    Attributes:
        loaded: shared with other sessions.
        models: of this session.
        text: the state of its text.
        template: the text around messages; the bundle's compiled template unless replaced.
        cache_notice: why the cache is empty though a file was given, in one sentence; else None.
        adapter_notice: that a restored session was saved with another adapter of the drafter; else None.
        trace: where generations are recorded for training (see `TraceStore.pause`); None for nowhere.
    """

    def __init__(
        self,
        loaded: LoadedBundle,
        *,
        cache: str | Path | None = None,
        adapter: Adapter | str | Path | None = None,
        bitwise: bool = False,
        trace: TraceStore | TraceMemory | str | Path | None = None,
    ) -> None:
        """
        Args:
            loaded: from `load_bundle`.
            cache: a file of learned n-grams; a file that is absent or refused gives an empty cache.
            adapter: for `use_adapter`.
            bitwise: compute the target's rows alike in passes of all lengths (see `EvenModel`), so that
                greedy text equals plain text in int8 and int4 too; single tokens take 1.3 times as long.
            trace: a directory to record generations in, text included, or a store that sessions share.
                With a `TraceMemory` nothing reaches a disk.

        Raises:
            AdapterError: the adapter is refused.
            TraceFileError: nothing can be recorded there.
        """
        self.loaded = loaded
        self.models = SessionModels(loaded, bitwise=bitwise)
        ngrams, self.cache_notice = (
            (NgramCache(self.vocab_map), None) if cache is None else open_cache(cache, self.vocab_map)
        )
        self.text = TextState(ngrams, loaded.bundle.costs)
        self.template: Template = loaded.bundle.prompt
        self.adapter_notice: str | None = None
        if adapter is not None:
            self.use_adapter(adapter)
        self.trace: TraceStore | TraceMemory | None = None
        if trace is not None:
            self.trace = open_trace(trace, self.vocab_map)

    @property
    def bundle(self) -> Bundle:
        """The bundle on disk."""
        return self.loaded.bundle

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The target's tokenizer."""
        return self.loaded.target_tokenizer

    @property
    def vocab_map(self) -> VocabMap:
        """How the drafter's tokens spell the target's."""
        return self.loaded.vocab_map

    @property
    def cache(self) -> NgramCache:
        """N-grams learned so far."""
        return self.text.cache

    @cache.setter
    def cache(self, cache: NgramCache) -> None:
        self.text.cache = cache

    @property
    def costs(self) -> Costs:
        """Seconds on this device, which the draft length "auto" uses."""
        return self.text.costs

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self.text.costs = costs

    @property
    def answer(self) -> Generation | None:
        """The last generation."""
        return self.text.answer

    @property
    def turns(self) -> list[Turn]:
        """Earlier turns of the conversation."""
        return self.text.turns

    @property
    def message(self) -> str | None:
        """The message that is being answered; None outside a conversation."""
        return self.text.message

    @property
    def adapters(self) -> dict[Role, Adapter]:
        """The adapters in use, by role."""
        return self.models.adapters

    def use_adapter(self, adapter: Adapter | str | Path | None, role: Role | None = None) -> None:
        """Use an adapter from the next round on, also of a running generation; from any thread.

        No weights are loaded again; the model reads its context again. An adapter of the drafter changes
        speed only; an adapter of the target changes the output.

        Args:
            adapter: the adapter, or its file; None takes adapters away.
            role: the model that it is of; by the fingerprint of its base when None.

        Raises:
            AdapterError: the file is refused, or is of other models; the adapter in use stays.
        """
        self.models.use_adapter(adapter, role)

    def save_cache(self, path: str | Path) -> Path | None:
        """Write the n-grams learned so far; no crash can spoil the file.

        Returns:
            where the file before was moved to, if it is not a whole cache of these vocabularies; else None.

        Raises:
            CacheFileError: the file cannot be written.
            SessionError: another thread is using this session.
        """
        with self.turn():
            return write_cache(path, self.cache)

    def reset_cache(self) -> None:
        """Forget all learned n-grams, and how often drafts were accepted."""
        self.text.cache = NgramCache(self.vocab_map)
        self.text.lengths = LengthState()

    def reset(self) -> None:
        """Forget the conversation, not what was learned."""
        with self.turn():
            self.text.forget_text()

    def measure(self, prompt: str) -> Costs:
        """Time this device and count accepted drafts; the draft length "auto" uses the result.

        New costs can change which sampled text a seed gives.
        """
        with self.turn():
            ids = self.encode(prompt)
            models = DecoderModels(self.models.target, self.models.drafter, self.cache, self.models.clock)
            prior = self.bundle.costs.acceptance
            self.text.costs = measure_costs(models, ids, self.loaded.draft_prompt(ids), prior=prior)
            self.text.decoder.cached.clear()  # the timing used the target's KV cache
            return self.text.costs

    def encode(self, prompt: str, *, raw: bool = False) -> list[int]:
        """Target ids of a prompt, inside the template unless `raw`."""
        prefix, suffix = ("", "") if raw else self.template.parts(1)
        return self.target_tokenizer.encode_prompt(prefix, prompt, suffix)

    def draft_prompt(self, prompt_ids: Sequence[int]) -> list[int]:
        """The visible text of a prompt in draft ids; empty without a drafter."""
        return self.loaded.draft_prompt(prompt_ids)

    def generate(
        self,
        prompt: str | Sequence[int],
        config: GenerationConfig = DEFAULTS,
        *,
        raw: bool = False,
        **overrides: Any,
    ) -> Generation:
        """Start a text and forget the last one. It has the target's distribution in every mode but `paper`.

        Args:
            prompt: text, or target ids.
            config: settings of the generation.
            raw: leave the prompt template out.
            overrides: fields of the config by name: `generate("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, or too long for the context (ContextError).
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
        """
        config = overridden(config, overrides)
        with self.turn():
            config.check()
            ids = (
                self.encode(checked_text(prompt), raw=raw) if isinstance(prompt, str) else prompt_ids(prompt)
            )
            generation = generate_from_prompt(self.models, self.text, ids, config, self._recording())
            self.text.turns, self.text.message = [], None
            return generation

    def chat(self, message: str, config: GenerationConfig = DEFAULTS, **overrides: Any) -> Generation:
        """Answer the next message of a conversation; the target reads only what is new in it.

        Args:
            message: text.
            config: settings of the answer.
            overrides: fields of the config by name: `chat("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, or too long a conversation for the context (ContextError); nothing changes.
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
        """
        config = overridden(config, overrides)
        with self.turn():
            config.check()
            turns = self._finished_turns()
            ids = conversation_ids(self.target_tokenizer, self.template, turns, checked_text(message))
            generation = generate_from_prompt(self.models, self.text, ids, config, self._recording())
            self.text.turns, self.text.message = turns, message
            return generation

    def resume(self) -> Generation:
        """Continue the generation that a session was saved in.

        Its `text` and `token_ids` begin with the earlier output; the statistics count from here.

        Raises:
            SessionError: there is none, or it had ended.
        """
        with self.turn():
            before = self.answer
            if before is None or before.stop_reason is not None:
                raise SessionError("there is no unfinished generation to resume", "start one")
            self.text.decoder.tokens = [*before.prompt_ids, *before.token_ids]
            emitted = Emitted(before.token_ids, before.logprobs)
            self.text.answer = generate_from_state(
                self.models, self.text, before.config, before.prompt_ids, emitted, self._recording()
            )
            return self.text.answer

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write this session to a file, also between the pieces of a generation (spec/09-session.md).

        A kill at any moment leaves a whole file, the old or the new one.

        Raises:
            SessionFileError: the place cannot be written, or holds a file that is not a session (unless
                `overwrite`).
        """
        with self.turn():
            write_session(path, *capture(self.models, self.text), overwrite=overwrite)

    def load(self, path: str | Path) -> None:
        """Take over a saved session of the same bundle. The models read its text again.

        What follows has the distribution that it would have had; at temperature 0 in float32 it is the same
        text.

        Raises:
            SessionFileError: the file is refused; this session stays as it was.
        """
        with self.turn():
            self.text, self.adapter_notice = restore(self.models, self.text, path, *read_session(path))

    def turn(self) -> AbstractContextManager[None]:
        """One user of the models at a time, with the adapters that were given last.

        Raises:
            SessionError: another thread is using this session.
        """
        return turn(self.models, self.text)

    def _recording(self) -> Recording | None:
        """Where the next generation is recorded."""
        store = self.trace
        if store is None:
            return None
        return Recording(store, Tracer(self.vocab_map, lambda: store.is_recording))

    def _finished_turns(self) -> list[Turn]:
        """All turns so far, with the last answer as far as it went."""
        if self.message is None or self.answer is None:
            return []
        answer = answer_ids(self.target_tokenizer, self.answer, self.bundle.target.eos_ids)
        return [*self.turns, Turn(self.message, answer)]
