"""The settings of a generation as one value; session files hold it."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from omnidraft import defaults
from omnidraft.errors import ContextError, PromptError, SettingError
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.stop import StopText
from omnidraft.runtime.session.modes import Mode, Verification, check_mode

MAX_COUNT = (1 << 31) - 1  # of tokens: a session file holds no larger number
MAX_STOPS, MAX_STOP_BYTES = 64, 1024
TOO_LONG = "shorten it, or export with a larger --max-length where the target has more positions"


@dataclass(frozen=True)
class GenerationConfig:
    """Settings of a generation.

    Attributes:
        max_new_tokens: output tokens at most.
        temperature: 0 for greedy decoding.
        seed: 0..2^64-1; drawn by the operating system when None. Drafts take random numbers, too, so a seed
            repeats a text where the drafts are equal: with the same settings, adapters, learned n-grams and
            text before it, and for "auto" the same costs. In a session that learned in between it gives
            another text of the same distribution. Modes plain and lookup repeat it whatever was learned.
        mode: trie (default), match, direct, paper (approximate above temperature 0), lookup (copies from
            the context, without the drafter), plain.
        num_draft_tokens: of each round; "auto" proposes as many tokens as pay, in mode trie also copies of
            the context instead of drafts. A number drafts that many tokens and copies only in mode lookup.
        stop: strings that end the output; none of them is part of it.
        ignore_eos: continue after the end of the text (for benchmarks).
        top_k, top_p, min_p, repetition_penalty: as in `SamplingConfig`; the target's distribution is the one
            after them.
        verification: of mode trie above temperature 0: token, block, or auto: block where a round takes long
            enough by the bundle's costs.
        logprobs: also give each token's natural log-probability under that distribution; at temperature 0,
            where the distribution is certain, under the softmax of the penalised logits.
    """

    max_new_tokens: int = defaults.MAX_NEW_TOKENS
    temperature: float = defaults.TEMPERATURE
    seed: int | None = None
    mode: Mode = defaults.MODE
    num_draft_tokens: int | Literal["auto"] = defaults.NUM_DRAFT_TOKENS
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    top_k: int = defaults.TOP_K
    top_p: float = defaults.TOP_P
    min_p: float = defaults.MIN_P
    repetition_penalty: float = defaults.REPETITION_PENALTY
    verification: Verification | Literal["auto"] = defaults.VERIFICATION
    logprobs: bool = False

    @property
    def sampling(self) -> SamplingConfig:
        """How the target's logits become a distribution.

        Raises:
            SettingError: a value outside its range.
        """
        return SamplingConfig(self.temperature, self.top_k, self.top_p, self.min_p, self.repetition_penalty)

    @property
    def asks_drafter(self) -> bool:
        """Whether its mode drafts with the small model."""
        return self.mode not in ("plain", "lookup")

    @property
    def copies(self) -> bool:
        """Whether proposals may be copied from the context."""
        return self.mode == "lookup" or (self.mode == "trie" and self.num_draft_tokens == "auto")

    def check(self) -> None:
        """Refuse settings outside their ranges.

        Raises:
            SettingError: naming the value.
        """
        _check_types(self)
        _ = self.sampling
        check_mode(self.mode, self.verification)
        if self.max_new_tokens < 1:
            raise SettingError(
                f"max_new_tokens {self.max_new_tokens} is less than 1",
                "ask for at least one token",
                setting="max_new_tokens",
            )
        for name in ("max_new_tokens", "top_k"):
            if (count := getattr(self, name)) > MAX_COUNT:
                raise SettingError(
                    f"{name} {count} is more than {MAX_COUNT}", "use a smaller number", setting=name
                )
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise SettingError(
                f"seed {self.seed} is outside 0..2^64-1", "use any number in this range", setting="seed"
            )
        if self.num_draft_tokens != "auto":
            FixedLength(self.num_draft_tokens)
        StopText(self.stop)
        longest = max((len(each.encode()) for each in self.stop), default=0)
        if len(self.stop) > MAX_STOPS or longest > MAX_STOP_BYTES:
            raise SettingError(
                f"stop has {len(self.stop)} strings of up to {longest} bytes",
                f"give at most {MAX_STOPS} of at most {MAX_STOP_BYTES} bytes",
                setting="stop",
            )


_COUNTS = ("max_new_tokens", "seed", "num_draft_tokens", "top_k")
_NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty")
_SWITCHES = ("ignore_eos", "logprobs")


def _check_types(config: GenerationConfig) -> None:
    for names, kinds, expected in (
        (_COUNTS, (int,), "a whole number"),
        (_NUMBERS, (int, float), "a number"),
        (_SWITCHES, (bool,), "True or False"),
    ):
        for name in names:
            value = getattr(config, name)
            if (name, value) in (("seed", None), ("num_draft_tokens", "auto")):
                continue
            if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
                raise SettingError(
                    f"{name} {value!r} is of type {type(value).__name__}", f"give {expected}", setting=name
                )
            if isinstance(value, int) and value.bit_length() > 1023:  # beyond a float
                message = f"{name} has {value.bit_length():,} bits"
                raise SettingError(message, "give a smaller number", setting=name)
    stop: object = config.stop
    if not isinstance(stop, tuple) or not all(isinstance(text, str) for text in stop):
        raise SettingError(f"stop {stop!r} is not a tuple of strings", "give strings", setting="stop")


def overridden(config: GenerationConfig, overrides: dict[str, Any]) -> GenerationConfig:
    """The config with some fields replaced.

    Raises:
        SettingError: a name that is not a field, no config, or a setting outside its range.
    """
    given: object = config
    if not isinstance(given, GenerationConfig):
        raise SettingError(
            f"the config is a {type(given).__name__}",
            "give a GenerationConfig, or its fields by name: max_new_tokens=20",
        )
    unknown = overrides.keys() - {field.name for field in fields(GenerationConfig)}
    if unknown:
        known = ", ".join(field.name for field in fields(GenerationConfig))
        raise SettingError(f"{min(unknown)} is not a setting of a generation", f"use one of {known}")
    if "stop" in overrides:
        overrides["stop"] = stop_strings(overrides["stop"])
    config = replace(config, **overrides)
    config.check()
    return config


def stop_strings(stop: Any) -> tuple[str, ...]:
    """One stop string or several, as a config holds them.

    Raises:
        SettingError: neither a string nor a sequence.
    """
    try:
        return (stop,) if isinstance(stop, str) else tuple(stop)
    except TypeError:
        raise SettingError(
            f"stop {stop!r} is not a sequence of strings", "give strings", setting="stop"
        ) from None


def prompt_ids(prompt: Any) -> list[int]:
    """A prompt of ids.

    Raises:
        PromptError: not a sequence of whole numbers.
    """
    try:
        if isinstance(prompt, bytes | bytearray):
            raise TypeError
        return [operator.index(i) for i in prompt]
    except TypeError:
        kind = type(prompt).__name__
        raise PromptError(
            f"the prompt, a {kind}, is neither text nor token ids", "give one of them"
        ) from None


def check_prompt(ids: Sequence[int], target: ModelEntry, too_long: str = TOO_LONG) -> None:
    """Refuse a prompt that the target cannot read.

    Args:
        too_long: the remedy where the prompt is longer than the context.

    Raises:
        PromptError: it has no tokens, or one outside the vocabulary.
        ContextError: it is longer than the context.
    """
    limit, size = target.kv.max_length, target.vocab_size
    if not ids:
        raise PromptError("the prompt has no tokens", "give at least one")
    wrong = next((i for i in ids if not 0 <= i < size), None)
    if wrong is not None:
        raise PromptError(f"token id {wrong} is outside the target's 0..{size - 1}")
    if len(ids) > limit:
        raise ContextError(f"the prompt has {len(ids)} tokens and the context holds {limit}", too_long)
