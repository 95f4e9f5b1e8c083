"""Measure the arms of a starter pair, answer by answer; what has a line already is not measured again."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.peers.arms import Arm, plain_transformers
from benchmarks.peers.decoders import Answer, Decoder
from benchmarks.peers.distribution import distance, pairs
from benchmarks.peers.lines import Line, commit, key, read, weights_of
from benchmarks.support.json_lines import append
from benchmarks.support.starter_pairs import StarterPair
from benchmarks.support.task_prompts import unseen
from omnidraft.runtime.session.api import load

NEW_TOKENS = 96
WARM_UP = 1  # answers of each arm to a task that are not timed
DRAWN_TASKS = ("GSM8K", "MBPP")  # whose first prompts are drawn again and again
Prompts = dict[str, list[list[int]]]  # target ids by task


@dataclass(frozen=True)
class Work:
    """The answers of an arm to a task's prompts.

    Attributes:
        arm: what answers.
        task: of the prompts.
        seed: of all answers.
        prompts: numbers of the prompts that have no line yet.
    """

    arm: Arm
    task: str
    seed: int
    prompts: list[int]


def prompts_of(pair: StarterPair, each: int, gsm8k: int) -> Prompts:
    """Unseen prompts of each task as target ids, of GSM8K another number."""
    encode = load(pair.untrained).encode
    texts = unseen(max(each, gsm8k))
    counts = {task: gsm8k if task == "GSM8K" else each for task in texts}
    return {task: [encode(text) for text in texts[task][: counts[task]]] for task in texts}


class Measuring:
    """The lines of a pair in a file."""

    def __init__(self, pair: StarterPair, prompts: Prompts, file: Path) -> None:
        """
        Args:
            pair: of a target and its drafters.
            prompts: by task.
            file: of the lines.
        """
        self.pair, self.prompts, self._file = pair, prompts, file
        self._commit = commit()
        self._done = {key(line): line["weights"] for line in read(file)}

    def work(self, arms: Sequence[Arm], seeds: int) -> list[Work]:
        """What is left, the first seed of every arm before the others."""
        left = list[Work]()
        for seed in range(seeds):
            for arm in arms:
                for task, prompts in self.prompts.items():
                    if seed and not arm.temperature:
                        continue
                    missing = [i for i in range(len(prompts)) if not self._is_done(arm, task, i, seed)]
                    if missing:
                        left.append(
                            Work(arm, task, seed, list(range(len(prompts))) if arm.keeps else missing)
                        )
        return left

    def count(self, work: Work) -> Iterator[Line]:
        """Write a line for each answer."""
        decoder = work.arm.make()
        for number in work.prompts:
            answer = _answer(decoder, work, self.prompts[work.task][number])
            yield self._write(self._line(work, number, answer))

    def time(self, work: Work) -> Iterator[Line]:
        """Write a line for each answer, with the seconds of plain decoding right before and after it."""
        decoder, plain = work.arm.make(), work.arm.plain()
        prompts = self.prompts[work.task]
        for prompt in prompts[:WARM_UP]:
            _answer(decoder, work, prompt)
            _answer(plain, work, prompt)
        for number in work.prompts:
            before, answer, after = (_answer(each, work, prompts[number]) for each in (plain, decoder, plain))
            both = before, after
            # Sampled texts have lengths of their own, so the reading of the prompt is apart from the rest.
            times = {
                "plain_read_seconds": [round(a.read_seconds, 5) for a in both],
                "plain_token_seconds": [round(a.decode_seconds / max(1, len(a.tokens) - 1), 7) for a in both],
            }
            yield self._write(self._line(work, number, answer) | times)

    def distances(self, arms: Collection[Arm], draws: int) -> Iterator[Line]:
        """Write a line for each sampled arm: how far its texts are from the target's distribution."""
        left = [arm for arm in arms if arm.temperature == 1.0 and not self._is_done(arm, None, None, 0)]
        if not left:
            return
        target = plain_transformers(self.pair)
        drawn = [self.prompts[task][0] for task in DRAWN_TASKS]
        exact = [pairs(target, prompt, draws) for prompt in drawn]
        for arm in left:
            measured = asdict(distance(arm.make(), drawn, exact, draws))
            line = self._head(arm) | {"seed": 0, "draws": draws} | measured
            yield self._write(line | {"commit": self._commit})

    def _is_done(self, arm: Arm, task: str | None, prompt: int | None, seed: int) -> bool:
        line = self._head(arm) | {"task": task, "prompt": prompt, "seed": seed}
        return bool(self._done.get(key(line)) == line["weights"])

    def _head(self, arm: Arm) -> Line:
        return {
            "target": self.pair.name,
            "arm": arm.name,
            "drafter": arm.drafter,
            "weights": weights_of(self.pair, arm.drafter),
            "temperature": arm.temperature,
        }

    def _line(self, work: Work, number: int, answer: Answer) -> Line:
        text = sha256(repr(answer.tokens).encode()).hexdigest()[:8]
        return self._head(work.arm) | {
            "task": work.task,
            "prompt": number,
            "seed": work.seed,
            "tokens": len(answer.tokens),
            "passes": answer.passes,
            "read_seconds": round(answer.read_seconds, 5),
            "decode_seconds": round(answer.decode_seconds, 5),
            "text": text,
            "commit": self._commit,
        }

    def _write(self, line: Line) -> Line:
        append(self._file, line)
        self._done[key(line)] = line["weights"]
        return line


def _answer(decoder: Decoder, work: Work, prompt: Sequence[int]) -> Answer:
    return decoder.generate(prompt, work.arm.temperature, work.seed, NEW_TOKENS)
