"""A learner without torch: the training step of a bundle, run by the onnxruntime that decodes.

A graph takes the vector of what learns, with AdamW's moments, and gives the next one; the adaptive head has a
graph of its own. Responses go through them a few at a time, so memory is that of one and not of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.head_step import head_batch, head_of, head_vector
from omnidraft.learning.step.learner import Learned
from omnidraft.learning.step.step_batch import factors_of, step_batch, step_scales
from omnidraft.learning.step.step_run import StepRun
from omnidraft.learning.step.step_tensors import initial, sites_of, vector_of
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.lora_sites import LoraSites
from omnidraft.runtime.bundle.train_step_entry import StepEntry
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.vocab_map import VocabMap

Arrays = dict[str, npt.NDArray[np.generic]]
_COUNTS = ("steps", "skipped")
_USUAL = {"learning_rate": 1e-3}  # of a pass whose rate falls; the paper's is for learning without an end
_OF_HEAD = "head."  # in front of the head's in a state


@dataclass(frozen=True)
class StepOptions:
    """How to learn; the paper's numbers where it says one.

    Attributes:
        objective: trie-kl or omnidraft.
        learning_rate, weight_decay: of AdamW with betas (0.9, 0.999).
        clip_norm: largest norm of the gradient.
        lora_alpha: the scale of the adapter is alpha / rank.
        seed: of what LoRA begins with.
        at_once: responses in one call of the graph; more take more memory and little less time.
        head: train the adaptive head too, after each step and on its responses, at head_rate.
        threads: of the graphs.
    """

    objective: str = "trie-kl"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    lora_alpha: float = 32.0
    seed: int = 0
    at_once: int = 1
    head: bool = False
    head_rate: float = 1e-3
    threads: int = 1

    def __post_init__(self) -> None:
        rates = dict.fromkeys(("learning_rate", "weight_decay", "clip_norm", "head_rate"), 0.0)
        least = {**rates, "at_once": 1, "threads": 1}
        for name, at_least in least.items():
            value = getattr(self, name)
            if not at_least <= value < float("inf"):
                usual = _USUAL.get(name, StepOptions.__dataclass_fields__[name].default)
                raise SettingError(
                    f"{name} {value} is not a number of at least {at_least}", f"{usual} is usual"
                )
        if not 0.0 < self.lora_alpha < float("inf"):
            raise SettingError(f"lora_alpha {self.lora_alpha} is no number above 0", "32 is usual")
        factors_of(self.objective)


def utc_now() -> str:
    """The time as adapters have it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class OrtLearner:
    """A drafter's LoRA tensors and head in training; see `learner.Learner`.

    Attributes:
        rate: of the drafter's coming steps; no part of `state()`.
        steps, skipped: so far, and those of them that changed nothing of the drafter.
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
            bundle: exported with --train-step. vocab_map: its map.
            options: how.
            adapter: what to begin with, packed as a learner packs; a fresh one of the seed's when None.
            now: the time that adapters get.

        Raises:
            SettingError: the bundle has no training step, or none of a head that is to be trained.
            AdapterError: the adapter is of other weights, or has another form.
            BundleError: onnxruntime cannot load a graph.
        """
        self.options = options or StepOptions()
        self._bundle, self._map, self._now = bundle, vocab_map, now
        self._entry, self._lora, self._base = _parts(bundle)
        self._factors = factors_of(self.options.objective)
        self._scale = self.options.lora_alpha / self._entry.rank
        self._drafter = self._run_of(self._entry.graph, self._beginning(adapter))
        self._begun_head = None if adapter is None else adapter.head
        self._head = self._head_run() if self.options.head else None
        self.rate = self.options.learning_rate
        self.steps = self.skipped = 0

    @property
    def updates(self) -> int:
        """How often the drafter was changed."""
        return self._drafter.updates

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """One step on one batch of at least one response.

        Raises:
            SettingError: no responses, or one that is of another pair or longer than the drafter's context;
                nothing was changed.
        """
        self._check(responses)
        size = self.options.at_once
        groups = [responses[at : at + size] for at in range(0, len(responses), size)]
        terms, found = self._learn_drafter(groups)
        self.steps += 1
        self.skipped += not found["applied"]
        if self._head is not None:
            terms["head"] = self._learn_head(self._head, groups)
        loss, norm = float(found["next_loss"]), float(found["norm"])
        return Learned(self.steps, loss, terms, norm, not found["applied"])

    def adapter(self) -> Adapter:
        """What was learned so far, as a session takes it."""
        tensors = sites_of(self._drafter.parameters, self._entry.layout, self._lora, self._scale)
        tokenizers = self._map.draft_fingerprint, self._map.target_fingerprint
        head, shape = self._begun_head, self._bundle.drafter.head
        if self._head is not None and self._entry.head is not None and shape is not None:
            head = head_of(self._head.parameters, self._entry.head.layout, shape)
        return Adapter(self._base, *tokenizers, tensors=tensors, created=self._now(), head=head)

    def state(self) -> Arrays:
        """All that going on needs, by name; copies."""
        counts = np.array([getattr(self, name) for name in _COUNTS], np.int64)
        of_head = {} if self._head is None else self._head.state(_OF_HEAD)
        return {**self._drafter.state(""), **of_head, "counts": counts}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a `state()` as if there had been no break.

        Raises:
            SettingError: it is of another learner; nothing was taken over.
        """
        runs = [(self._drafter, ""), *([] if self._head is None else [(self._head, _OF_HEAD)])]
        for run, prefix in runs:
            run.check(state, prefix)
        if self._head is None and any(name.startswith(_OF_HEAD) for name in state):
            raise SettingError(
                "the state of a learner has an adaptive head and this one trains none",
                "go on with --head, as it was begun",
            )
        if "counts" not in state or state["counts"].shape != (len(_COUNTS),):
            raise SettingError(
                "the state of a learner has no counts", "go on with the file that it was kept in"
            )
        for run, prefix in runs:
            run.restore(state, prefix)
        self.steps, self.skipped = (int(count) for count in state["counts"])

    def _beginning(self, adapter: Adapter | None) -> Any:
        layout = self._entry.layout
        if adapter is None:
            return initial(layout, self.options.seed)
        fit(adapter, self._bundle, self._map, "drafter")
        return vector_of(adapter, layout, self._lora, self._scale)

    def _run_of(self, graph: str, begin: Any) -> StepRun:
        file, folder = self._bundle.file(graph), self._bundle.file(self._entry.folder)
        return StepRun(file, folder, begin, self.options.threads)

    def _head_run(self) -> StepRun:
        if self._entry.head is None:
            raise SettingError(
                f"the drafter of {self._bundle.path.name} has no adaptive head to train",
                "export it again without --no-head, or leave the head out",
            )
        return self._run_of(self._entry.head.graph, head_vector(self._begun_head, self._entry.head.layout))

    def _learn_drafter(self, groups: Sequence[Sequence[Aligned]]) -> tuple[dict[str, float], dict[str, Any]]:
        """The mean of each term, and what the graph said."""
        parts = [step_batch(group, self._factors) for group in groups]
        terms = self._entry.layout.terms
        scales, counts = step_scales(parts, self._factors, terms)
        settings = {**self._settings(self.rate, self.options.weight_decay), "scales": scales}
        found = self._drafter.run([part.inputs for part in parts], settings)
        sums = dict(zip(terms, found["sums"].tolist(), strict=True))
        return {name: float(sums[name] / counts[name]) for name in counts}, found

    def _learn_head(self, head: StepRun, groups: Sequence[Sequence[Aligned]]) -> float:
        """The head's loss, on what the drafter draws now."""
        settings = self._settings(self.options.head_rate, 0.0)
        settings |= {"lora": self._drafter.parameters, "allowed": self._map.draft_allowed.astype(np.bool_)}
        found = head.run([head_batch(group) for group in groups], settings)
        return float(found["next_loss"] / max(float(found["next_weight"]), 1e-6))

    def _settings(self, rate: float, decay: float) -> Arrays:
        values = {
            "learning_rate": rate, "weight_decay": decay, "clip_norm": self.options.clip_norm,
            "lora_scale": self._scale,
        }  # fmt: skip
        return {name: np.array(value, np.float32) for name, value in values.items()}

    def _check(self, responses: Sequence[Aligned]) -> None:
        if not responses:
            raise SettingError("a step was given no responses", "give at least one")
        most, ours = (
            self._bundle.drafter.kv.max_length,
            (self._map.draft_fingerprint, self._map.target_fingerprint),
        )
        for response in responses:
            theirs = response.vocab_map.draft_fingerprint, response.vocab_map.target_fingerprint
            if theirs != ours:
                raise SettingError(
                    f"a response is of the tokenizers {theirs[0][:12]} and "
                    f"{theirs[1][:12]} and the bundle has {ours[0][:12]} and {ours[1][:12]}",
                    "align it with the bundle's vocabulary map",
                )
            if len(response.draft_ids) > most:
                raise SettingError(
                    f"a response has {len(response.draft_ids)} draft tokens and the "
                    f"drafter's context holds {most}",
                    "align with that as max_length",
                )


def _parts(bundle: Bundle) -> tuple[StepEntry, LoraSites, str]:
    entry = bundle.drafter
    if entry.train is None or entry.lora is None or entry.fingerprint is None:
        raise SettingError(
            f"{bundle.path.name} holds no training step",
            "export it again with --train-step, or learn with torch",
        )
    return entry.train, entry.lora, entry.fingerprint
