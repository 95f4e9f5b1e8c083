"""A session's own models on a shared bundle: their contexts, and the adapters in use."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.errors import SessionError
from omnidraft.runtime.decoding.drafter import Drafter, no_drafter
from omnidraft.runtime.decoding.model import Model, SessionModel
from omnidraft.runtime.decoding.speculate import Clock
from omnidraft.runtime.grammar.text_grammars import TextGrammars
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.models.adapter_fit import ROLES, Fitted, Role, fit, unfitted
from omnidraft.runtime.models.even_model import EvenModel
from omnidraft.runtime.models.ort_model import never
from omnidraft.runtime.session.language_model import LanguageModel


class SessionModels:
    """The target, and the drafter where one is loaded."""

    def __init__(self, loaded: LanguageModel, *, bitwise: bool) -> None:
        self.loaded = loaded
        self.clock: Clock = time.perf_counter
        self.all: list[SessionModel] = [loaded.target.new_model()]
        self.target: Model = EvenModel(self.all[0]) if bitwise else self.all[0]
        if loaded.drafter is None:
            self.drafter = no_drafter(loaded.bundle.drafter.vocab_size)
        else:
            self.all.append(loaded.drafter.new_model())
            bos = loaded.bundle.drafter.bos_id
            self.drafter = Drafter(self.all[-1], [] if bos is None else [bos])
        drafts = loaded.drafter_tokenizer
        self.grammars = TextGrammars(
            (loaded.target_tokenizer, lambda: loaded.target_trie),
            None if drafts is None else (drafts, lambda: loaded.draft_trie, loaded.vocab_map.draft_allowed),
            loaded.output_text.shown,
        )
        self._chosen: dict[Role, Fitted] = {role: Fitted() for role in ROLES}
        self._in_use: dict[Role, str | None] = dict.fromkeys(ROLES)
        self._lock = threading.Lock()

    @property
    def adapters(self) -> dict[Role, Adapter]:
        """The adapters that were given, by role."""
        return {role: each.adapter for role, each in self._chosen.items() if each.adapter is not None}

    @property
    def digests(self) -> tuple[str | None, str | None]:
        """Digests of the drafter's and the target's adapter that the last round ran with."""
        return self._in_use["drafter"], self._in_use["target"]

    def use_adapter(self, adapter: Adapter | str | Path | None, role: Role | None) -> None:
        """See `TextSession.use_adapter`; from any thread."""
        if adapter is None:
            for each in ROLES if role is None else (role,):
                self._chosen[each] = unfitted(self.loaded.bundle, each)
            return
        value = adapter if isinstance(adapter, Adapter) else read_adapter(adapter)
        each, fitted = fit(value, self.loaded.bundle, self.loaded.vocab_map, role)
        self._chosen[each] = fitted  # one assignment: the next round applies it

    @contextmanager
    def exclusive(self, is_cancelled: Callable[[], bool] = never) -> Iterator[bool]:
        """One user at a time; a second user is refused, because waiting could take for ever.

        Args:
            is_cancelled: cancels passes inside the context: before they begin, or when interrupted.

        Yields:
            whether the target has another adapter than before, so that it has to read its context again.

        Raises:
            SessionError: another thread is using the models.
        """
        if not self._lock.acquire(blocking=False):
            raise SessionError(
                "this session is in use by another thread",
                "cancel its text and wait, or give each thread its own session",
            )
        try:
            for model in self.all:
                model.cancelled = is_cancelled
            yield self._apply_adapters()
        finally:
            for model in self.all:
                model.cancelled = never
            self._lock.release()

    def _apply_adapters(self) -> bool:
        """Give the models the adapters of `use_adapter`; their contexts are of the old weights."""
        changed = False
        for role, model in zip(ROLES, self.all, strict=False):  # the drafter may not be loaded
            chosen = self._chosen[role]
            if chosen.digest == self._in_use[role]:
                continue
            model.use_adapter(chosen.tensors or {})
            self._in_use[role] = chosen.digest
            if role == "drafter":
                self.drafter.forget()
            else:
                changed = True
        return changed

    def interrupt(self) -> None:
        """End the run of a graph that is going on, in this thread or another; see `SessionModel`."""
        for model in self.all:
            model.interrupt()
