"""A learner without torch: the training step of a bundle, run by the onnxruntime that decodes.

It holds three vectors (what learns, and AdamW's two moments) and a count; the graph takes them and gives the
next ones. Responses go through it a few at a time, so memory is that of the longest and not of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.adapter import Adapter, Floats, LoraSites
from omnidraft.runtime.bundle import Bundle
from omnidraft.runtime.learner.alignment import Aligned
from omnidraft.runtime.learner.learner import Learned
from omnidraft.runtime.learner.step_batch import StepBatch, factors_of, step_batch
from omnidraft.runtime.learner.step_entry import StepEntry
from omnidraft.runtime.learner.step_tensors import initial, sites_of, vector_of
from omnidraft.runtime.vocab_map import VocabMap

Arrays = dict[str, npt.NDArray[np.generic]]
_VECTORS = ("parameters", "exp_avg", "exp_avg_sq")
_COUNTS = ("updates", "steps", "skipped")


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
        threads: of the graph.
    """

    objective: str = "trie-kl"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    lora_alpha: float = 32.0
    seed: int = 0
    at_once: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        least = {"learning_rate": 0.0, "weight_decay": 0.0, "clip_norm": 0.0, "at_once": 1, "threads": 1}
        for name, at_least in least.items():
            value = getattr(self, name)
            if not at_least <= value < float("inf"):
                raise SettingError(f"{name} {value} is not a number of at least {at_least}; leave it out")
        if not 0.0 < self.lora_alpha < float("inf"):
            raise SettingError(f"lora_alpha {self.lora_alpha} is no number above 0; 32 is usual")
        factors_of(self.objective)


def utc_now() -> str:
    """The time as adapters have it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class OrtLearner:
    """A drafter's LoRA tensors in training; see `learner.Learner`.

    Attributes:
        rate: of the coming steps; no part of `state()`.
        steps, skipped: so far, and those of them that changed nothing.
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
            SettingError: the bundle has no training step.
            AdapterError: the adapter is of other weights, or has another form.
            BundleError: onnxruntime cannot load the graph.
        """
        self.options = options or StepOptions()
        self._bundle, self._map, self._now = bundle, vocab_map, now
        self._entry, self._lora, self._base = _parts(bundle)
        self._factors = factors_of(self.options.objective)
        self._scale = self.options.lora_alpha / self._entry.rank
        layout = self._entry.layout
        if adapter is None:
            parameters = initial(layout, self.options.seed)
        else:
            self._check_base(adapter)
            parameters = vector_of(adapter, layout, self._lora, self._scale)
        self._vectors: dict[str, Floats] = {"parameters": parameters}
        self._vectors |= {name: np.zeros_like(parameters) for name in _VECTORS[1:]}
        self.rate = self.options.learning_rate
        self.updates = self.steps = self.skipped = 0
        self._session = _session(bundle, self._entry, self.options.threads)

    def learn(self, responses: Sequence[Aligned]) -> Learned:
        """One step on one batch of at least one response.

        Raises:
            SettingError: no responses, or one that is of another pair or longer than the drafter's context;
                nothing was changed.
        """
        self._check(responses)
        size = self.options.at_once
        groups = [responses[at : at + size] for at in range(0, len(responses), size)]
        parts = [step_batch(group, self._factors) for group in groups]
        counts = {name: sum(part.counts[name] for part in parts) for name in self._factors}
        found, sums = self._run(parts, counts)
        applied = bool(found["applied"])
        if applied:
            self._vectors = {name: found[f"next_{name}"] for name in _VECTORS}
            self.updates = int(found["next_updates"])
        self.steps += 1
        self.skipped += not applied
        means = {name: sums[name] / max(counts[name], 1e-6) for name in self._factors}
        loss, norm = float(found["next_loss"]), float(found["norm"])
        return Learned(self.steps, loss, means, norm, not applied)

    def adapter(self) -> Adapter:
        """What was learned so far, as a session takes it."""
        tensors = sites_of(self._vectors["parameters"], self._entry.layout, self._lora, self._scale)
        tokenizers = self._map.draft_fingerprint, self._map.target_fingerprint
        return Adapter(self._base, *tokenizers, tensors=tensors, created=self._now())

    def state(self) -> Arrays:
        """All that going on needs, by name; copies."""
        counts = np.array([getattr(self, name) for name in _COUNTS], np.int64)
        return {**{name: vector.copy() for name, vector in self._vectors.items()}, "counts": counts}

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from a `state()` as if there had been no break.

        Raises:
            SettingError: it is of another learner; nothing was taken over.
        """
        size = self._entry.layout.size
        wanted = {**dict.fromkeys(_VECTORS, ("float32", (size,))), "counts": ("int64", (len(_COUNTS),))}
        found = {name: (str(array.dtype), array.shape) for name, array in state.items()}
        for name, form in wanted.items():
            if found.get(name) != form:
                raise SettingError(
                    f"the state of a learner has {name} as {found.get(name)} and this one needs {form}; "
                    "go on with the bundle that it was begun with"
                )
        self._vectors = {name: np.array(state[name]) for name in _VECTORS}
        self.updates, self.steps, self.skipped = (int(count) for count in state["counts"])

    def _run(
        self, parts: Sequence[StepBatch], counts: Mapping[str, float]
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """The outputs of the last call, and each term's sum over all of them."""
        terms = self._entry.layout.terms
        scales = [self._factors.get(name, 0.0) / max(counts.get(name, 0.0), 1e-6) for name in terms]
        settings = {
            "scales": scales, "learning_rate": self.rate, "weight_decay": self.options.weight_decay,
            "clip_norm": self.options.clip_norm, "lora_scale": self._scale,
        }  # fmt: skip
        fixed: Arrays = {name: np.array(value, np.float32) for name, value in settings.items()}
        fixed |= {**self._vectors, "updates": np.array(self.updates, np.int64)}
        outputs = [output.name for output in self._session.get_outputs()]
        loss: Any = np.array(0.0, np.float32)
        gradient: Any = np.zeros(self._entry.layout.size, np.float32)
        found, sums = dict[str, Any](), np.zeros(len(terms))
        for i, part in enumerate(parts):
            last = np.array(i == len(parts) - 1)
            given = {**fixed, **part.inputs, "last": last, "loss": loss, "gradient": gradient}
            found = dict(zip(outputs, self._session.run(None, given), strict=True))
            loss, gradient = found["next_loss"], found["next_gradient"]
            sums += found["sums"]
        return found, dict(zip(terms, sums.tolist(), strict=True))

    def _check(self, responses: Sequence[Aligned]) -> None:
        if not responses:
            raise SettingError("a step was given no responses; give at least one")
        most, ours = (
            self._bundle.drafter.kv.max_length,
            (self._map.draft_fingerprint, self._map.target_fingerprint),
        )
        for response in responses:
            theirs = response.vocab_map.draft_fingerprint, response.vocab_map.target_fingerprint
            if theirs != ours:
                raise SettingError(
                    f"a response is of the tokenizers {theirs[0][:12]} and {theirs[1][:12]} and the bundle "
                    f"has {ours[0][:12]} and {ours[1][:12]}; align it with the bundle's vocabulary map"
                )
            if len(response.draft_ids) > most:
                raise SettingError(
                    f"a response has {len(response.draft_ids)} draft tokens and the drafter's context holds "
                    f"{most}; align with that as max_length"
                )

    def _check_base(self, adapter: Adapter) -> None:
        from omnidraft.runtime.adapter_fit import fit

        fit(adapter, self._bundle, self._map, "drafter")


def _parts(bundle: Bundle) -> tuple[StepEntry, LoraSites, str]:
    entry = bundle.drafter
    if entry.train is None or entry.lora is None or entry.fingerprint is None:
        raise SettingError(
            f"{bundle.path.name} holds no training step; export it again with --train-step, or learn with "
            "torch"
        )
    return entry.train, entry.lora, entry.fingerprint


def _session(bundle: Bundle, entry: StepEntry, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The weights lie in a folder beside the step's, where onnxruntime looks for a graph without a path alone.
    folder = str(bundle.file(entry.folder))
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        graph = bundle.file(entry.graph).read_bytes()
        return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions share no narrower base
        line = str(error).strip().splitlines()[0]
        raise BundleError(
            f"onnxruntime cannot load {bundle.file(entry.graph)} ({line:.200}); run `omnidraft export` again"
        ) from None
