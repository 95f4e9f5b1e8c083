"""A learner without torch: onnxruntime runs the training step of the bundle.

A call takes a few responses of a batch, so memory does not grow with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.learner import Learned
from omnidraft.learning.step.schedule import check_least
from omnidraft.learning.step.state_file import Arrays
from omnidraft.learning.step.step_batch import step_batch, step_scale
from omnidraft.learning.step.step_run import StepRun
from omnidraft.learning.step.step_tensors import initial_vector, sites_of, vector_of
from omnidraft.runtime.bundle.bundle import Bundle, need_drafter
from omnidraft.runtime.bundle.checked_files import checked_step
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.train_step_entry import StepEntry
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.models.engine_memory import bounded_by
from omnidraft.runtime.models.onnx_session import bytes_session
from omnidraft.runtime.vocab.vocab_map import VocabMap

_COUNTS = ("steps", "skipped")
_USUAL = {"weight_decay": 0.01, "clip_norm": 1.0, "at_once": 1, "threads": 1}
_USUAL["learning_rate"] = 1e-3  # for a pass with a decaying rate; the paper's is for endless learning


@dataclass(frozen=True)
class StepOptions:
    """Options of a learner; the defaults are the paper's values where it has one.

    Attributes:
        learning_rate: of AdamW with betas (0.9, 0.999).
        lora_alpha: the scale of the adapter is lora_alpha / rank.
        at_once: responses in one call of the graph; a larger value takes more memory and slightly less time.
    """

    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    lora_alpha: float = 32.0
    seed: int = 0
    at_once: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        rates = dict.fromkeys(("learning_rate", "weight_decay", "clip_norm"), 0.0)
        check_least(self, {**rates, "at_once": 1, "threads": 1}, _USUAL)
        if not 0.0 < self.lora_alpha < float("inf"):
            raise SettingError(
                f"lora_alpha {self.lora_alpha} is not a number above 0", "32 is usual", setting="lora_alpha"
            )


def utc_now() -> str:
    """The current time in the form of adapter files, ISO 8601 in UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class OrtLearner:
    """A drafter's LoRA tensors in training; see `learner.Learner`.

    Attributes:
        rate: learning rate of the drafter's next steps; not part of `state()`.
        skipped: steps that were not finite and did not change the drafter.
    """

    def __init__(
        self,
        bundle: Bundle,
        vocab_map: VocabMap,
        options: StepOptions | None = None,
        *,
        adapter: Adapter | None = None,
        now: Callable[[], str] = utc_now,
    ) -> None:
        """
        Args:
            adapter: to begin with, packed by a learner, for any target; new tensors from the seed when None.

        Raises:
            SettingError: the bundle has no training step.
            AdapterError: the adapter is of another drafter, or has another form.
            BundleError: onnxruntime cannot load a graph, or a file is not the one that was hashed.
        """
        self.options = options or StepOptions()
        self._bundle, self._map, self._now = bundle, vocab_map, now
        self._entry, self._lora, self._base = _parts(bundle)
        self._scale = self.options.lora_alpha / self._entry.rank
        self._drafter = StepRun(self._session(), self._initial(adapter))
        self.rate = self.options.learning_rate
        self.steps = self.skipped = 0

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """Do one step on a batch of at least one response.

        Raises:
            SettingError: there is no response, or a response is of another pair or longer than the drafter's
                context; nothing changed.
        """
        self._check(responses)
        size = self.options.at_once
        groups = [responses[at : at + size] for at in range(0, len(responses), size)]
        parts = [step_batch(group) for group in groups]
        settings = {
            "learning_rate": self.rate, "weight_decay": self.options.weight_decay,
            "clip_norm": self.options.clip_norm, "lora_scale": self._scale, "scale": step_scale(parts),
        }  # fmt: skip
        inputs: Arrays = {name: np.array(value, np.float32) for name, value in settings.items()}
        outputs = self._drafter.run([part.inputs for part in parts], inputs)
        self.steps += 1
        self.skipped += not outputs["applied"]
        loss, norm = float(outputs["next_loss"]), float(outputs["norm"])
        return Learned(self.steps, loss, norm, not outputs["applied"])

    def adapter(self) -> Adapter:
        tensors = sites_of(self._drafter.parameters, self._entry.layout, self._lora, self._scale)
        tokenizers = self._map.draft_fingerprint, self._map.target_fingerprint
        return Adapter(self._base, *tokenizers, tensors=tensors, created=self._now())

    def state(self) -> Arrays:
        counts = np.array([getattr(self, name) for name in _COUNTS], np.int64)
        return {**self._drafter.state(), "counts": counts}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._drafter.check(state)
        if "counts" not in state or state["counts"].shape != (len(_COUNTS),):
            raise SettingError("the state of a learner has no counts", "give the file that a learner wrote")
        self._drafter.restore(state)
        self.steps, self.skipped = (int(count) for count in state["counts"])

    def _initial(self, adapter: Adapter | None) -> Any:
        layout = self._entry.layout
        if adapter is None:
            return initial_vector(layout, self.options.seed)
        # It is of the drafter's weights alone, so what it learned for another target is a beginning, too.
        ours = replace(adapter, target_tokenizer=self._map.target_fingerprint)
        fit(ours, self._bundle, self._map, "drafter")
        return vector_of(ours, layout, self._lora, self._scale)

    def _session(self) -> ort.InferenceSession:
        graph, folder = self._entry.graph, self._entry.folder
        content = checked_step(self._bundle, graph, folder)
        with bounded_by(self._bundle):
            session = bytes_session(
                content, self._bundle.file(graph), self._bundle.file(folder), self.options.threads
            )
        check_unchanged(self._bundle.places, self._bundle.stamps)  # the weights were read by their name
        return session

    def _check(self, responses: Sequence[Aligned]) -> None:
        if not responses:
            raise SettingError("a step was given no responses", "give at least one")
        longest = self._bundle.drafter.kv.max_length
        ours = self._map.draft_fingerprint, self._map.target_fingerprint
        for response in responses:
            theirs = response.vocab_map.draft_fingerprint, response.vocab_map.target_fingerprint
            if theirs != ours:
                raise SettingError(
                    f"a response is of the tokenizers {theirs[0][:12]} and "
                    f"{theirs[1][:12]}, and the bundle has {ours[0][:12]} and {ours[1][:12]}",
                    "align it with the bundle's vocabulary map",
                )
            if len(response.draft_ids) > longest:
                raise SettingError(
                    f"a response has {len(response.draft_ids)} draft tokens and the "
                    f"drafter's context holds {longest}",
                    f"align with max_length {longest}",
                )


def _parts(bundle: Bundle) -> tuple[StepEntry, LoraSites, str]:
    need_drafter(bundle)
    entry = bundle.drafter
    if entry.train is None or entry.lora is None or entry.fingerprint is None:
        raise SettingError(
            f"{bundle.path.name} holds no training step",
            "export it again with --train-step, or learn with torch",
        )
    return entry.train, entry.lora, entry.fingerprint
