"""A session's own models on shared weights: contexts of their own, and the adapters that they are given."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.errors import SessionError
from omnidraft.runtime.decoding.drafter import Drafter, no_drafter
from omnidraft.runtime.decoding.model import Model, SessionModel
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import read_adapter
from omnidraft.runtime.models.adapter_fit import ROLES, Fitted, Role, fit, unfitted
from omnidraft.runtime.models.even_model import EvenModel
from omnidraft.runtime.models.ort_model import never
from omnidraft.runtime.session.loaded_bundle import LoadedBundle


class SessionModels:
    """The target, and the drafter where one is loaded.

    Attributes:
        all: the models, the target first. target: the same, maybe even (see `EvenModel`).
        drafter: keeps the second one's context, or stands in for it.
    """

    def __init__(self, weights: LoadedBundle, *, bitwise: bool) -> None:
        """
        Args:
            weights: shared with other sessions.
            bitwise: compute the target's rows alike in passes of all lengths.
        """
        self._weights = weights
        self.all: list[SessionModel] = [weights.target.new_model()]
        self.target: Model = EvenModel(self.all[0]) if bitwise else self.all[0]
        if weights.drafter is None:
            self.drafter = no_drafter(weights.bundle.drafter.vocab_size)
        else:
            self.all.append(weights.drafter.new_model())
            bos = weights.bundle.drafter.bos_id
            self.drafter = Drafter(self.all[-1], [] if bos is None else [bos])
        self._wanted: dict[Role, Fitted] = {role: Fitted() for role in ROLES}
        self._in_use: dict[Role, str | None] = dict.fromkeys(ROLES)
        self._lock = threading.Lock()

    @property
    def adapters(self) -> dict[Role, Adapter]:
        """The adapters that were given, by the model that they are of."""
        return {role: each.adapter for role, each in self._wanted.items() if each.adapter is not None}

    @property
    def digests(self) -> tuple[str | None, str | None]:
        """Of the adapters of the drafter and the target that the last round ran with."""
        return self._in_use["drafter"], self._in_use["target"]

    def use_adapter(self, adapter: Adapter | str | Path | None, role: Role | None) -> None:
        """See `Session.use_adapter`; from any thread."""
        if adapter is None:
            for each in ROLES if role is None else (role,):
                self._wanted[each] = unfitted(self._weights.bundle, each)
            return
        found = adapter if isinstance(adapter, Adapter) else read_adapter(adapter)
        each, fitted = fit(found, self._weights.bundle, self._weights.vocab_map, role)
        self._wanted[each] = fitted  # one assignment: whoever runs the next round takes it up

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """One user at a time; who comes second is refused, since waiting could be for ever.

        Yields:
            whether the target has to read its context again, since it was given another adapter.

        Raises:
            SessionError: another thread is using the models.
        """
        if not self._lock.acquire(blocking=False):
            raise SessionError(
                "this session is in use by another thread",
                "give each thread a session of its own on the same weights",
            )
        try:
            yield self._take_up()
        finally:
            self._lock.release()

    def _take_up(self) -> bool:
        """Feed the models what `use_adapter` was given; what they had read is of the old weights.

        Returns:
            whether the target has to read its context again.
        """
        changed = False
        for role, model in zip(ROLES, self.all, strict=False):  # the drafter may not be loaded
            wanted = self._wanted[role]
            if wanted.digest == self._in_use[role]:
                continue
            model.use_adapter(wanted.tensors or {})
            self._in_use[role] = wanted.digest
            if role == "drafter":
                self.drafter.forget()
            else:
                changed = True
        return changed

    @contextmanager
    def cancelled_by(self, is_cancelled: Callable[[], bool]) -> Iterator[None]:
        """Let something cancel the passes within, each before it begins."""
        for model in self.all:
            model.cancelled = is_cancelled
        try:
            yield
        finally:
            for model in self.all:
                model.cancelled = never
