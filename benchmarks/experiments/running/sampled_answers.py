"""Answers that a target sampled, with what a drafter learns from: computed once, kept in shards.

Prompt i of pass n is answered at the i + n-th of a pool's temperatures, in turn; 0 is greedy. All rows are at
temperature 1, as in traces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.experiments.running import answer_files
from benchmarks.experiments.running.answer_files import Arrays, Texts, normalised, target_rows
from benchmarks.experiments.running.answers import BATCH, MAX_NEW_TOKENS, MAX_PROMPT, TOP, Answer
from benchmarks.experiments.running.pairs import fitting, load_pair, torch_model
from benchmarks.experiments.running.tasks import TASKS, Split, spread
from benchmarks.support.greedy_batch import greedy_steps
from omnidraft.learning.positions.draft_targets import DraftDistribution
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.runtime.session.loaded_bundle import LoadedBundle
from omnidraft.runtime.vocab.vocab_map import VocabMap

MIXED = (1.0, 0.0, 1.0, 0.7)  # half of the answers are sampled at 1
ROOTS = 128  # draft ids that are kept of a row
TEST = 200  # test prompts, spread over the rows
_SHARD = 128
_ROWS = ("ids", "p", "root_ids", "roots", "spelled")  # arrays with a row for each token


@dataclass(frozen=True)
class Sampled(Answer):
    """An answer that was sampled; its rows are cut to the likeliest ids.

    Attributes:
        temperature: that it was sampled at; 0 is greedy.
        roots: as the rows, in draft tokens, at the root of the trie of all spellings; from the whole rows.
    """

    temperature: float
    roots: tuple[DraftDistribution, ...]


@dataclass(frozen=True)
class Pool:
    """The answers of a target to the prompts of a task in one pass.

    Attributes:
        target, task, split: whose answers to which prompts.
        temperatures: taken in turn.
        number: of the pass, which draws other answers.
    """

    target: str
    task: str
    split: Split = "train"
    temperatures: tuple[float, ...] = MIXED
    number: int = 0

    def prompts(self) -> list[str]:
        """All training prompts, or `TEST` test prompts, which are spread also over the first of them."""
        prompts = TASKS[self.task].prompts(self.split)
        if self.split == "train":
            return prompts
        chosen = spread(prompts, TEST)
        return [chosen[i] for i in np.random.default_rng(0).permutation(len(chosen))]

    def temperature(self, place: int) -> float:
        """The temperature of a prompt's answer."""
        return self.temperatures[(place + self.number) % len(self.temperatures)]

    def answers(self, work: Path, count: int) -> Iterator[Sampled]:
        """The answers to the first `count` prompts; those that are not on disk are computed first."""
        texts = self.prompts()[:count]
        for start in range(0, len(texts), _SHARD):
            file = self._file(work, start)
            if not file.exists():
                _write(file, _sampled(work, self, self.prompts()[start : start + _SHARD], start))
            yield from (each for place, each in _read(file) if place < count)

    def _file(self, work: Path, start: int) -> Path:
        mix = "-".join(f"{t:g}" for t in self.temperatures)
        name = f"{self.target}-{self.task}-{self.split}-T{mix}-{self.number}-{start:05}.npz"
        return work / "sampled" / name


Place = tuple[int, Sampled]  # the index of the prompt


def _sampled(work: Path, pool: Pool, texts: Sequence[str], start: int) -> list[Place]:
    pair, model = load_pair(work, pool.target), torch_model(pool.target).train(False)
    prompts = fitting(pair, texts, MAX_PROMPT)
    order = list(prompts)
    below = _root_matrix(pair.vocab_map)
    generator = torch.Generator().manual_seed(1_000_003 * pool.number + start)
    answers = list[Place]()
    for at in range(0, len(order), BATCH):
        batch = order[at : at + BATCH]
        temperatures = torch.tensor([pool.temperature(start + i) for i in batch])
        answered = _answered(model, pair, [prompts[i][0] for i in batch], temperatures, generator, below)
        for i, (tokens, rows, roots) in zip(batch, answered, strict=True):
            prompt, draft_prompt = (tuple(ids) for ids in prompts[i])
            temperature = pool.temperature(start + i)
            sampled = Sampled(prompt, draft_prompt, tokens, rows, temperature, roots)
            answers.append((start + i, sampled))
    return sorted(answers, key=lambda each: each[0])


def _answered(
    model: Any,
    pair: LoadedBundle,
    prompts: Sequence[Sequence[int]],
    temperatures: Tensor,
    generator: torch.Generator,
    below: Tensor,
) -> list[tuple[tuple[int, ...], TargetRows, tuple[DraftDistribution, ...]]]:
    """Tokens, rows and roots of a batch."""

    def choose(logits: Tensor, which: Tensor) -> Tensor:
        temperature = temperatures[which, None]
        p = (logits / temperature.clamp_min(1e-4)).softmax(dim=-1).double().cumsum(dim=-1)
        drawn = torch.rand(len(p), 1, generator=generator, dtype=torch.float64) * p[:, -1:]
        sampled = torch.searchsorted(p, drawn, right=True).clamp_max_(p.shape[1] - 1)
        return torch.where(temperature > 0.0, sampled, logits.argmax(dim=-1, keepdim=True))[:, 0]

    lists = [list[tuple[Any, ...]]() for _ in prompts]
    for step in greedy_steps(
        model, prompts, max_new_tokens=MAX_NEW_TOKENS, eos_ids=pair.bundle.target.eos_ids, choose=choose
    ):
        p, ids = (values.numpy() for values in step.distributions.topk(TOP, sorted=False))
        masses = (below @ step.distributions.T).T  # [B, draft vocab]
        spelled = masses.sum(dim=1).numpy()
        roots, root_ids = (values.numpy() for values in masses.topk(ROOTS, sorted=False))
        for row, (b, token) in enumerate(zip(step.which.tolist(), step.tokens.tolist(), strict=True)):
            lists[b].append((token, ids[row], p[row], root_ids[row], roots[row], spelled[row]))
    return [_joined(*zip(*each, strict=True)) for each in lists]


def _joined(
    tokens: Sequence[int], ids: Any, p: Any, root_ids: Any, roots: Any, spelled: Any
) -> tuple[tuple[int, ...], TargetRows, tuple[DraftDistribution, ...]]:
    arrays = (np.stack(ids), np.stack(p), np.stack(root_ids), np.stack(roots), np.array(spelled))
    return (tuple(tokens), *_distributions(*arrays))


def _root_matrix(vocab_map: VocabMap) -> Tensor:
    """1 where a target token's spelling begins with a draft token, [draft vocab, target vocab], sparse."""
    places = np.stack([vocab_map.leaf_firsts, vocab_map.leaves]).astype(np.int64)
    ones = torch.ones(places.shape[1])
    size = (vocab_map.draft_size, vocab_map.target_size)
    return torch.sparse_coo_tensor(torch.from_numpy(places), ones, size).to_sparse_csr()


def _distributions(
    ids: npt.NDArray[Any],
    p: npt.NDArray[Any],
    root_ids: npt.NDArray[Any],
    roots: npt.NDArray[Any],
    spelled: npt.NDArray[Any],
) -> tuple[TargetRows, tuple[DraftDistribution, ...]]:
    """Rows and roots of float16 or float32 arrays, normalised."""
    whole = np.clip(spelled.astype(np.float64), 1e-6, 1.0)
    masses, other = normalised(roots.astype(np.float64) / whole[:, None])
    return target_rows(ids, p), tuple(
        DraftDistribution(root_ids[i].astype(np.int32), masses[i], float(other[i]), float(whole[i]))
        for i in range(len(masses))
    )


def _write(path: Path, answers: Sequence[Place]) -> None:
    each = [answer for _, answer in answers]
    arrays: Arrays = {
        "places": np.array([place for place, _ in answers], dtype=np.int32),
        "temperatures": np.array([a.temperature for a in each]),
        "ids": np.concatenate([a.rows.ids for a in each]).astype(np.uint16),
        "p": np.concatenate([a.rows.probabilities for a in each]).astype(np.float16),
        "root_ids": np.stack([r.ids for a in each for r in a.roots]).astype(np.uint16),
        "roots": np.stack([r.probabilities * r.weight for a in each for r in a.roots]).astype(np.float16),
        "spelled": np.array([r.weight for a in each for r in a.roots], dtype=np.float32),
    }
    answer_files.write(path, [Texts(a.prompt, a.draft_prompt, a.tokens) for a in each], arrays)


def _read(path: Path) -> Iterator[Place]:
    arrays, answers = answer_files.read(path)
    for i, (texts, span) in enumerate(answers):
        rows, roots = _distributions(*(arrays[name][span] for name in _ROWS))
        temperature = float(arrays["temperatures"][i])
        yield int(arrays["places"][i]), Sampled(*texts, rows, temperature, roots)
