"""Choice of the learner of `omnidraft adapt`: torch on a checkpoint, or the bundle's training graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from omnidraft.errors import SettingError, install
from omnidraft.learning.averaged import AveragedLearner
from omnidraft.learning.online.profiles import AdaptSettings
from omnidraft.learning.step.learner import Learner
from omnidraft.learning.step.step_batch import OBJECTIVES
from omnidraft.runtime.bundle.bundle import Bundle, need_drafter
from omnidraft.runtime.bundle.train_step_entry import StepEntry
from omnidraft.runtime.session.loaded_bundle import LoadedBundle

if TYPE_CHECKING:
    from omnidraft.learning.step.ort_learner import StepOptions
    from omnidraft.training.trainer_options import TrainerOptions

LEARNERS = ("auto", "torch", "onnx")
USUAL_RANK = 32  # with torch; the rank of a training graph is fixed


@dataclass(frozen=True)
class Learning:
    """How the drafter learns.

    Attributes:
        learner: torch, onnx (the bundle's training graph, without torch) or auto: onnx if the bundle has the
            graph.
        drafter: checkpoint of the bundle's drafter, for torch.
        objective: see `TrainerOptions`.
        rate: learning rate.
        lora_rank: with torch, `USUAL_RANK` when None; that of a training graph is fixed at export.
        answering: settings of the answers that it learns from.
    """

    learner: str = "auto"
    drafter: str | None = None
    objective: str = "trie-kl"
    rate: float = 4e-3
    lora_rank: int | None = None
    answering: AdaptSettings = field(default_factory=dict)

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that this cannot learn for.

        Raises:
            SettingError: a setting does not fit the bundle, or a package is missing.
        """
        if self.learner not in LEARNERS:
            raise SettingError(f'--learner "{self.learner}" is unknown', f"use one of {', '.join(LEARNERS)}")
        need_drafter(bundle)
        if self.learner == "onnx" and bundle.drafter.train is None:
            raise SettingError(
                f"{bundle.path.name} holds no training step",
                "export it again with --train-step, or learn with --learner torch",
            )
        if self.learner != "torch" and bundle.drafter.train is not None:
            self._check_step(bundle.path.name, bundle.drafter.train)
            self._step_options()
            return
        self._trainer_options()
        if self.drafter is None:
            no_step = bundle.drafter.train is None
            why = f"{bundle.path.name} holds no training step, so torch learns" if no_step else "torch learns"
            remedy = "export with --train-step" if no_step else "leave out --learner torch"
            raise SettingError(
                f"{why}, which needs the weights that the drafter was exported from",
                f"give their directory or hub id with --drafter, or {remedy}",
            )
        if missing := [name for name in ("torch", "transformers") if not find_spec(name)]:
            raise SettingError(
                f"learning needs {' and '.join(missing)}, which this Python does not have",
                install("export,train"),
            )

    def _check_step(self, name: str, step: StepEntry) -> None:
        if self.lora_rank is not None:
            raise SettingError(
                f"--lora-rank {self.lora_rank} is for torch: the training step of "
                f"{name} has rank {step.rank}, fixed when it was exported",
                f"leave --lora-rank out, export again with --train-rank {self.lora_rank}"
                ", or learn with --learner torch",
            )
        if self.objective not in OBJECTIVES:
            raise SettingError(
                f'--objective "{self.objective}" is not in the training step of '
                f"{name}, which has {' and '.join(OBJECTIVES)}",
                "give one of these, or learn with --learner torch",
            )

    def settings(self, bundle: Bundle) -> AdaptSettings:
        """The settings that a later run for the same target must have too."""
        settings: AdaptSettings = {
            "objective": self.objective,
            "rate": self.rate,
            **self.answering,
        }
        if self.learner != "torch" and bundle.drafter.train is not None:
            return {"learner": "onnx", **settings}
        return {"learner": "torch", **settings, "lora_rank": self._rank}

    @property
    def _rank(self) -> int:
        return USUAL_RANK if self.lora_rank is None else self.lora_rank

    def make(self, weights: LoadedBundle) -> Learner:
        """A learner for the drafter of a loaded bundle."""
        self.check(weights.bundle)
        if self.learner != "torch" and weights.bundle.drafter.train is not None:
            from omnidraft.learning.step.ort_learner import OrtLearner

            return AveragedLearner(OrtLearner(weights.bundle, weights.vocab_map, self._step_options()))
        assert self.drafter is not None
        from omnidraft.training.torch_learner import TorchLearner

        return AveragedLearner(TorchLearner(self.drafter, weights, self._trainer_options()))

    def _step_options(self) -> StepOptions:
        """Options of the training graph.

        Raises:
            SettingError: the rate is not a number of at least 0.
        """
        from omnidraft.learning.step.ort_learner import StepOptions

        return StepOptions(self.objective, self.rate, weight_decay=0.0)

    def _trainer_options(self) -> TrainerOptions:
        """Options of torch.

        Raises:
            SettingError: the rate is not a number of at least 0.
        """
        from omnidraft.training.trainer_options import TrainerOptions

        return TrainerOptions(
            objective=self.objective,
            learning_rate=self.rate,
            lora_rank=self._rank,
            weight_decay=0.0,
        )
