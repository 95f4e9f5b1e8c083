"""A session: one text or conversation on loaded weights, with the cache that learns from it.

Threads: one generation at a time in a session (a second one at the same moment is refused); different
sessions may run in different threads at once, also on the same `LoadedBundle`. `Generation.cancel` may be called
from anywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from omnidraft.errors import SessionError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.decoding.costs import Costs
from omnidraft.runtime.decoding.draft_length import DraftLength, FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.speculate import Mode, Pair, Verification
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.session.conversation import Template, Turn, answer_ids, conversation_ids
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.generation_config import (
    GenerationConfig,
    checked_text,
    prompt_ids,
    stop_strings,
)
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.session.measure import measure_costs
from omnidraft.runtime.session.session_models import SessionModels
from omnidraft.runtime.session.session_store import capture, install, read_session, write_session
from omnidraft.runtime.session.start_generation import begin, start
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
    """What was said on some weights, and what was learned while it was said.

    Attributes:
        weights: shared with other sessions. models: of this session's own. pair: what they have read.
        turns: earlier turns of a conversation. message: the one that is being answered, None outside one.
        template: stands around messages; the bundle's compiled one unless replaced.
        costs: what the draft length "auto" goes by. answer: the last generation.
        cache_notice: why the cache is empty though a file was given, in one sentence; else None.
        adapter_notice: that a loaded session was saved with another adapter of the drafter; else None.
        trace: where generations are recorded for training (see `TraceStore.pause`); None for nowhere.
        tracer: takes down for it what each round saw.
    """

    def __init__(
        self,
        weights: LoadedBundle,
        *,
        cache: str | Path | None = None,
        adapter: Adapter | str | Path | None = None,
        bitwise: bool = False,
        trace: TraceStore | TraceMemory | str | Path | None = None,
    ) -> None:
        """
        Args:
            weights: from `load_bundle`.
            cache: a file of learned n-grams; one that is absent or refused gives an empty cache.
            adapter: for `use_adapter`.
            bitwise: compute the target's rows alike in passes of all lengths (see `EvenModel`), so that
                greedy text equals plain text in int8 and int4 too; single tokens take 1.3 times as long.
            trace: a directory to record generations in, text and all, or a store that sessions share.
                In a `TraceMemory` nothing reaches a disk.

        Raises:
            AdapterError: the adapter is refused.
            TraceFileError: nothing can be recorded there.
        """
        self.weights = weights
        self.models = SessionModels(weights, bitwise=bitwise)
        learned, self.cache_notice = (
            (NgramCache(self.vocab_map), None) if cache is None else open_cache(cache, self.vocab_map)
        )
        self.pair = Pair(self.models.target, self.drafter, learned)
        self.costs: Costs = weights.bundle.costs
        self.template: Template = weights.bundle.prompt
        self.turns: list[Turn] = []
        self.message: str | None = None
        self.answer: Generation | None = None
        self.draft_length: DraftLength = FixedLength(0)
        self.draft_lengths: dict[Mode, DraftLength] = {}  # the last of each mode, which the next one follows
        self.random = SplitMix64(0)
        self.adapter_notice: str | None = None
        if adapter is not None:
            self.use_adapter(adapter)
        self.trace: TraceStore | TraceMemory | None = None
        self.tracer: Tracer | None = None
        if trace is not None:
            self.trace = store = open_trace(trace, self.vocab_map)
            self.tracer = Tracer(self.vocab_map, lambda: store.is_recording)

    @property
    def bundle(self) -> Bundle:
        """The bundle that the weights are of."""
        return self.weights.bundle

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Of the target."""
        return self.weights.target_tokenizer

    @property
    def vocab_map(self) -> VocabMap:
        """How the drafter's tokens write the target's."""
        return self.weights.vocab_map

    @property
    def cache(self) -> NgramCache:
        """N-grams learned so far."""
        return self.pair.cache

    @property
    def adapters(self) -> dict[Role, Adapter]:
        """The adapters in use, by the model that they are of."""
        return self.models.adapters

    @property
    def drafter(self) -> Drafter:
        """Keeps the drafter's context, or stands in for it."""
        return self.models.drafter

    def use_adapter(self, adapter: Adapter | str | Path | None, role: Role | None = None) -> None:
        """Use an adapter from the next round on, also of a generation that is running; from any thread.

        No weights are loaded anew; the model reads its context again. A drafter's adapter changes speed only,
        the target's changes what is said.

        Args:
            adapter: or its file; None takes adapters away.
            role: the model that it is of; by the fingerprint of its base when None.

        Raises:
            AdapterError: the file is refused, or is of other models; what was in use stays.
        """
        self.models.use_adapter(adapter, role)

    def save_cache(self, path: str | Path) -> Path | None:
        """Write the n-grams learned so far, so that no crash can spoil the file.

        Returns:
            where the file is now that was there and is no whole cache of these vocabularies; else None.

        Raises:
            CacheFileError: the file cannot be written.
            SessionError: another thread is using this session.
        """
        with self.turn():
            return write_cache(path, self.cache)

    def reset_cache(self) -> None:
        """Forget every n-gram that was learned, and how often drafts were accepted."""
        self.pair.cache = NgramCache(self.vocab_map)
        self.draft_lengths = {}

    def reset(self) -> None:
        """Forget what was said, not what was learned."""
        with self.turn():
            self.turns, self.message, self.answer = [], None, None

    def measure(self, prompt: str) -> Costs:
        """Time this machine and count what is accepted, and let "auto" go by that and less by the bundle.

        A draft length that was measured anew can change which sampled text a seed gives.
        """
        with self.turn():
            ids = self.encode(prompt)
            self.pair.held = 0  # the timing writes other things into the target's context
            context = self.draft_prompt(ids)
            believed = self.weights.bundle.costs.acceptance
            self.costs = measure_costs(self.pair, ids, context, believed=believed)
            return self.costs

    def encode(self, prompt: str, *, raw: bool = False) -> list[int]:
        """Target ids of a prompt, inside the template unless `raw`."""
        prefix, suffix = ("", "") if raw else self.template.parts(1)
        return self.target_tokenizer.encode_prompt(prefix, prompt, suffix)

    def draft_prompt(self, prompt_ids: Sequence[int]) -> list[int]:
        """The visible text of a prompt in draft ids; none without a drafter."""
        tokenizer = self.weights.drafter_tokenizer
        if tokenizer is None:
            return []
        return tokenizer.encode(self.target_tokenizer.text_of(prompt_ids).decode("utf-8", "replace"))

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        seed: int | None = None,
        mode: Mode = "trie",
        num_draft_tokens: int | Literal["auto"] = "auto",
        stop: Sequence[str] = (),
        raw: bool = False,
        ignore_eos: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        verification: Verification | Literal["auto"] = "auto",
        logprobs: bool = False,
        head_threshold: float | Literal["auto"] = 1.0,
    ) -> Generation:
        """Start a text and forget the one before. Its distribution is the target's own in every mode but `paper`.

        Args:
            prompt: text, or target ids as they are.
            raw: leave the prompt template out.
            max_new_tokens, temperature, seed, mode, num_draft_tokens, stop, ignore_eos, top_k, top_p, min_p,
                repetition_penalty, verification, logprobs, head_threshold: see `GenerationConfig`.

        Raises:
            PromptError: empty, or too long for the context (ContextError).
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
        """
        request = GenerationConfig(
            max_new_tokens, temperature, seed, mode, num_draft_tokens, stop_strings(stop), ignore_eos,
            top_k, top_p, min_p, repetition_penalty, verification, logprobs, head_threshold,
        )  # fmt: skip
        with self.turn():
            request.check()
            if isinstance(prompt, str):
                ids = self.encode(checked_text(prompt), raw=raw)
            else:
                ids = prompt_ids(prompt)
            found = start(self, ids, request, goes_on=False)
            self.turns, self.message = [], None
            return found

    def chat(self, message: str, request: GenerationConfig = DEFAULTS, **settings: Any) -> Generation:
        """Answer the next message of a conversation; only what is new in it is read by the target.

        Args:
            message: text.
            request: settings of the answer.
            settings: in place of the request's own, by their names: `chat("Hi", max_new_tokens=20)`.

        Raises:
            PromptError: empty, or too long a conversation for the context (ContextError); nothing changes.
            SettingError: a setting outside its range.
            SessionError: another thread is using this session.
        """
        if "stop" in settings:
            settings["stop"] = stop_strings(settings["stop"])
        request = replace(request, **settings)
        with self.turn():
            request.check()
            turns = self._finished_turns()
            ids = conversation_ids(self.target_tokenizer, self.template, turns, checked_text(message))
            found = start(self, ids, request, goes_on=True)
            self.turns, self.message = turns, message
            return found

    def resume(self) -> Generation:
        """Go on with the generation that a session was saved in: its next token is the one that was due.

        Its `text` and `token_ids` begin with what was said before; the statistics count from here.

        Raises:
            SessionError: there is none, or it had ended.
        """
        with self.turn():
            if self.answer is None or self.answer.stop_reason is not None:
                raise SessionError("there is no unfinished generation to go on with", "start one")
            self.pair.tokens = [*self.answer.prompt_ids, *self.answer.token_ids]
            said = self.answer
            self.answer = begin(self, said.request, said.prompt_ids, said.token_ids, said.logprobs)
            return self.answer

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write this session to a file; also between the pieces of a generation (spec/session.md).

        Whenever the process is killed, the old file is there or the new one, whole.

        Raises:
            SessionFileError: the place cannot be written, or has a file that is no session
                (unless `overwrite`).
        """
        with self.turn():
            write_session(path, *capture(self), overwrite=overwrite)

    def load(self, path: str | Path) -> None:
        """Take over a saved session of the same bundle; what comes next is what would have come there.

        Raises:
            SessionFileError: the file is refused; this session stays as it was.
        """
        with self.turn():
            install(self, path, *read_session(path))

    def _finished_turns(self) -> list[Turn]:
        """All turns so far, the last answer as far as it went."""
        if self.message is None or self.answer is None:
            return []
        answer = answer_ids(self.target_tokenizer, self.answer, self.bundle.target.eos_ids)
        return [*self.turns, Turn(self.message, answer)]

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One user of the models at a time, with the adapters that are wanted now.

        Raises:
            SessionError: another thread is using this session.
        """
        with self.models.turn() as read_anew:
            if read_anew:
                self.pair.held = 0
            yield
