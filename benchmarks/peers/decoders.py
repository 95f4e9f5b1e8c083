"""One way to call all runtimes: a prompt in ids, an answer in ids, the passes of the target, and seconds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from omnidraft.checkpoints.checkpoint import quiet
from omnidraft.runtime.session.api import GenerationConfig, TextSession
from omnidraft.runtime.session.modes import Mode


@dataclass(frozen=True)
class Answer:
    """What a decoder wrote.

    Attributes:
        tokens: target ids, the end of the text included.
        passes: of the target that gave them; a pass that only reads the prompt is not counted.
        read_seconds: until the first of them was there.
        decode_seconds: after that.
    """

    tokens: list[int]
    passes: int
    read_seconds: float
    decode_seconds: float


class Decoder(Protocol):
    """Writes an answer to a prompt."""

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        """Write at most `new_tokens` tokens after a prompt of target ids; greedily at temperature 0."""


def _model(checkpoint: Path) -> Any:
    with quiet():
        return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)


class Transformers:
    """`generate` of transformers, with an assistant or another aid, or alone."""

    def __init__(self, target: Path, **aid: Any) -> None:
        """
        Args:
            target: checkpoint.
            aid: arguments of `generate`.
        """
        self.model = _model(target)
        self.model.register_forward_hook(self._count)
        self._aid = aid
        self._passes, self._first = 0, 0.0

    def _count(self, *_: object) -> None:
        if not self._passes:
            self._first = time.perf_counter()
        self._passes += 1

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        """See `Decoder`. The first pass reads the prompt and verifies a draft."""
        torch.manual_seed(seed)
        started, self._passes = time.perf_counter(), 0
        ids = torch.tensor([list(prompt)])
        # The defaults of generate would cut the distribution at 50 tokens.
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode():
            text = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=new_tokens,
                **(sampling if temperature else {"do_sample": False}),
                **self._aid,
            )
        ended = time.perf_counter()
        tokens = text[0, len(prompt) :].tolist()
        return Answer(tokens, self._passes, self._first - started, ended - self._first)


def assisted(target: Path, drafter: Path, count: int | None, *, in_order: bool = False) -> Transformers:
    """Assisted generation with two tokenizers: UAG at temperature 0, TLI when it samples.

    Args:
        target, drafter: checkpoints.
        count: draft tokens a round; when None, as many as transformers drafts by default.
        in_order: give TLI the drafter's vocabulary in the order of ids. As shipped it keeps the rows of the
            drafter's head in the order of `get_vocab`, which is none, and reads the logits in the order of
            ids, so that tokens get one another's probabilities.
    """
    assistant = _model(drafter)
    if count is not None:
        assistant.generation_config.num_assistant_tokens = count
        assistant.generation_config.num_assistant_tokens_schedule = "constant"
        assistant.generation_config.assistant_confidence_threshold = 0.0
    tokenizer: Any = AutoTokenizer.from_pretrained(drafter)
    if in_order:
        vocabulary = dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
        tokenizer.get_vocab = lambda: dict(vocabulary)
    return Transformers(
        target,
        assistant_model=assistant,
        tokenizer=AutoTokenizer.from_pretrained(target),
        assistant_tokenizer=tokenizer,
    )


class Omnidraft:
    """Sessions of omnidraft."""

    def __init__(
        self,
        begin: Callable[[], TextSession],
        mode: Mode,
        count: int | Literal["auto"] = "auto",
        *,
        keeps: bool = True,
        seeded: bool = True,
    ) -> None:
        """
        Args:
            begin: makes a session.
            mode, count: of `GenerationConfig`.
            keeps: whether all answers are of one session, which keeps n-grams and what "auto" learned.
            seeded: whether sampled answers take their seed; with a seed "auto" forgets earlier answers.
        """
        self._seeded = seeded
        self._begin, self._config = begin, GenerationConfig(mode=mode, num_draft_tokens=count)
        self._kept = begin() if keeps else None

    def generate(self, prompt: Sequence[int], temperature: float, seed: int, new_tokens: int) -> Answer:
        """See `Decoder`."""
        session = self._kept or self._begin()
        session.forget_context()  # else a prompt that the session had before would not be read again
        drawn = seed if self._seeded or temperature == 0.0 else None
        started = time.perf_counter()
        answer = session.generate(
            prompt, self._config, temperature=temperature, seed=drawn, max_new_tokens=new_tokens
        )
        next(iter(answer), None)
        first = time.perf_counter()
        answer.finish()
        seconds = first - started, time.perf_counter() - first
        return Answer(answer.token_ids, answer.statistics.rounds, *seconds)
