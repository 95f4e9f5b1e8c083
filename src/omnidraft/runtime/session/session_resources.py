"""What a session works with: models, n-grams, recorder, statistics, and the state of its text."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.notice import Notice
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.hashes import refuse_rewritten
from omnidraft.runtime.bundle.memory import peak_bytes
from omnidraft.runtime.chat.messages import checked_text
from omnidraft.runtime.chat.prompt_template import Template
from omnidraft.runtime.decoding.length_state import Costs, LengthState
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import Role
from omnidraft.runtime.session.conversation import Turn, conversation_ids
from omnidraft.runtime.session.decode import DecoderModels
from omnidraft.runtime.session.generation import Generation
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.measure import measure_costs
from omnidraft.runtime.session.session_models import SessionModels
from omnidraft.runtime.session.session_store import capture, read_session, restore, write_session
from omnidraft.runtime.session.statistics import SessionStatistics, Statistics
from omnidraft.runtime.session.text_state import TextState
from omnidraft.runtime.traces.recorder import Store, open_trace
from omnidraft.runtime.vocab.cache_store import open_cache, write_cache
from omnidraft.runtime.vocab.ngram_cache import NgramCache
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap


class SessionResources:
    """The models, n-grams and recorder of a session, and the state of its text.

    Attributes:
        loaded: shared with other sessions.
        template: the text around messages; the bundle's compiled template unless replaced.
        notices: that the file of its cache was refused, or that the session loaded last was saved with
            another adapter of the drafter.
        drops_oldest: whether `chat` leaves out the oldest turns where the context is too small for them all
            and an answer; the system prompt stays. Else such a message is refused.
        trace: where generations are recorded for training (see `TraceStore.pause`); None for nowhere.
    """

    def __init__(
        self,
        loaded: LanguageModel,
        *,
        cache: str | Path | None = None,
        adapter: Adapter | str | Path | None = None,
        bitwise: bool = False,
        trace: Store | str | Path | None = None,
    ) -> None:
        """
        Args:
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
        ngrams, refused = (
            (NgramCache(self.vocab_map), None) if cache is None else open_cache(cache, self.vocab_map)
        )
        self.notices = [] if refused is None else [Notice("empty_cache", refused)]
        self.text = TextState(ngrams, loaded.costs)
        self.template: Template = loaded.bundle.prompt
        self.drops_oldest = False
        if adapter is not None:
            self.use_adapter(adapter)
        self.trace: Store | None = None if trace is None else open_trace(trace, self.vocab_map)

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
        """The message that is being answered, empty for results; None outside a conversation."""
        return None if self.text.asked is None else self.text.asked.message

    @property
    def system(self) -> str | None:
        """The system prompt of texts that begin in the template; None for none. It applies to the next text.

        Raises:
            PromptError: where it is set: the template has no place for one, or it is not a text.
        """
        return self.text.system

    @system.setter
    def system(self, system: str | None) -> None:
        if system is not None:
            self.template.parts(1, system=True)
            checked_text(system, "the system prompt")
        with self.exclusive():
            self.text.system = system

    @property
    def context_size(self) -> int:
        """Tokens that the target can read, the output included."""
        return self.bundle.target.kv.max_length

    @property
    def context_used(self) -> int:
        """Tokens of the text so far: the prompt or conversation, and the last output.

        0 after an undo or a load, until the next answer.
        """
        return len(self.text.decoder.tokens) if self.answer is not None else 0

    @property
    def stats(self) -> SessionStatistics:
        """What was generated since the conversation began or was loaded, and the memory of this process."""
        totals, answer = Statistics(), self.text.answer
        totals.merge(self.text.totals)
        if answer is not None:
            totals.merge(answer.statistics)
        return SessionStatistics(self.text.answers, totals, peak_bytes())

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
            where the file before was moved to, if it is a damaged cache; else None.

        Raises:
            CacheFileError: the file cannot be written, or another file than a cache of this pair is there.
        """
        with self.exclusive():
            return write_cache(path, self.cache)

    def reset_cache(self) -> None:
        """Forget all learned n-grams, and how often drafts were accepted."""
        self.text.cache = NgramCache(self.vocab_map)
        self.text.lengths = LengthState()

    def forget_context(self, *, of_target: bool = True) -> None:
        """Let the models read the next prompt from its first token, whatever their KV caches hold."""
        with self.exclusive():
            if of_target:
                self.text.decoder.cached.clear()
            self.models.drafter.forget()
            self.text.lengths.unread = len(self.text.decoder.context)

    def reset(self) -> None:
        """Forget the conversation and its counts, not system prompt, tools and what was learned."""
        with self.exclusive():
            self.text.forget_text()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write this session to a file, also between the pieces of a generation (spec/09-session.md).

        A kill at any moment leaves a whole file, the old or the new one.

        Raises:
            SessionFileError: the place cannot be written, or holds a file that is not a session (unless
                `overwrite`).
        """
        with self.exclusive():
            write_session(path, *capture(self.models, self.text), overwrite=overwrite)

    def load(self, path: str | Path) -> None:
        """Take over a saved session of the same bundle. The models read its text again.

        What follows has the distribution that it would have had; at temperature 0 in float32 it is the same
        text.

        Raises:
            SessionFileError: the file is refused; this session stays as it was.
        """
        with self.exclusive():
            self.text, notice = restore(self.models, self.text, path, *read_session(path))
            before = [each for each in self.notices if each.kind != "other_adapter"]
            self.notices = before if notice is None else [*before, notice]

    def measure(self, prompt: str) -> Costs:
        """Time this device after a prompt; the draft length "auto" uses the result.

        New costs can change which sampled text a seed gives.

        Raises:
            PromptError: empty, or no text.
        """
        with self.exclusive(generates=True):
            ids = self.encode(checked_text(prompt))
            models = DecoderModels(self.models.target, self.models.drafter, self.cache, self.models.clock)
            draft_ids, acceptance = self.loaded.draft_prompt(ids), self.bundle.costs.acceptance
            self.text.costs = measure_costs(models, ids, draft_ids, acceptance)
            self.text.decoder.cached.clear()  # the timing used the target's KV cache
            return self.text.costs

    def encode(self, prompt: str, *, raw: bool = False) -> list[int]:
        """Target ids of a prompt, inside the template and behind the system prompt unless `raw`.

        Raises:
            PromptError: the template has no place for the session's system prompt.
        """
        if raw:
            return self.target_tokenizer.encode_prompt("", prompt, "")
        return conversation_ids(self.target_tokenizer, self.template, [], prompt, self.system)

    @contextmanager
    def exclusive(self, *, generates: bool = False) -> Iterator[None]:
        """One user of the models at a time, with the adapters that were given last.

        Args:
            generates: whether a text begins or goes on; then the files must be those that were loaded.

        Raises:
            SessionError: another thread is using this session.
            BundleError: a file of the bundle was written since it was loaded.
        """
        if generates:
            refuse_rewritten(self.bundle.places, self.bundle.stamps)
        with self.models.exclusive() as target_changed:
            if target_changed:
                self.text.decoder.cached.clear()
            yield
