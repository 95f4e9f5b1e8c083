"""Verdicts on a pair of models: is the default mode faster, and can the drafter write what the target says?

`export`, `doctor` and `bench` print them. They are computed from measured costs and counts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnidraft.errors import counted
from omnidraft.runtime.decoding.length_state import LONGEST, Costs
from omnidraft.runtime.disk.json_fields import integer, mapping
from omnidraft.runtime.session.statistics import Statistics
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap

CHANCE = 0.02  # a share of accepted draft tokens below this is chance agreement of an untrained pair
_WHOLE, _HALF = 0.999, 0.5  # shares of the target's text tokens that a drafter can write
_EXAMPLES = 3  # tokens that a drafter cannot write, in a sentence
_LENGTHS = {str(length): length for length in range(LONGEST + 1)}  # the names of lengths in a manifest
_LITTLE = 0.05  # accepted draft tokens of a pass, below which copies alone do the work
_RESAMPLES = 2000
FEW_TEXTS = 3  # fewer say nothing about other texts, and an interval of them would seem to
EXPECTED = "is expected here"  # of an estimate, in a sentence
MAX_TEXTS = 64  # whose counts a manifest holds


@dataclass(frozen=True)
class PairVerdict:
    """One verdict."""

    good: bool  # whether nothing needs to be done
    sentence: str  # the verdict
    remedy: str = ""  # what to do; empty where the verdict is good
    speed_up: float = 1.0  # over plain decoding, measured or estimated

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence


@dataclass(frozen=True)
class Speed:
    """The speed of the default mode over plain decoding."""

    ratio: float  # geometric mean over texts
    interval: tuple[float, float]  # 95 % of it, by bootstrap over the texts
    # drafts, copies: accepted tokens of the drafter, and copied ones, for each target pass
    drafts: float
    copies: float
    texts: int

    @property
    def parts(self) -> str:
        """Where the tokens come from, for people."""
        return (
            f"{1.0 + self.copies + self.drafts:.2f} tokens from each pass of the target: 1 of its own, "
            f"{self.copies:.2f} copied from the text, {self.drafts:.2f} drafted"
        )


def speed_of(texts: Sequence[Statistics], ratios: Sequence[float]) -> Speed:
    """The speed over some texts.

    Args:
        texts: their counts, at least one.
    """
    ratio, interval = geometric_mean(ratios)
    rounds = max(1, sum(text.rounds for text in texts))
    copies = sum(text.accepted_copies for text in texts) / rounds
    drafts = sum(text.accepted for text in texts) / rounds - copies
    return Speed(ratio, interval, drafts, copies, len(texts))


def geometric_mean(ratios: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The geometric mean of some ratios, and its 95 % interval by bootstrap."""
    logs = np.log(ratios)
    means = np.exp(np.random.default_rng(0).choice(logs, size=(_RESAMPLES, len(logs))).mean(axis=1))
    return float(np.exp(logs.mean())), (float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975)))


def estimated_speed(texts: Sequence[Statistics], costs: Costs) -> Speed:
    """The speed on a device, from the rounds of texts that were counted at export (method section 6)."""
    plain = costs.round_seconds(0)
    return speed_of(texts, [text.emitted * plain / seconds_of(text, costs) for text in texts])


def seconds_of(text: Statistics, costs: Costs) -> float:
    """Seconds of the rounds of a text by the costs of a device."""
    drafted = sum(costs.round_seconds(length) * n for length, n in text.lengths.items())
    return drafted + sum(costs.copy_seconds(length) * n for length, n in text.copied_lengths.items())


def speed_verdict(speed: Speed, what: str, *, learns: bool = True) -> PairVerdict:
    """Whether the default mode is faster than plain decoding.

    Args:
        what: `was measured`, or `EXPECTED`.
    """
    low, high = speed.interval
    figures = f"{speed.ratio:.2f}x of plain decoding {what} (95 % {low:.2f}-{high:.2f}), {speed.parts}"
    learn = "let the drafter learn this kind of text (`omnidraft learn`; needs `export --train-step`)"
    if not learns:
        learn = "export with a drafter, which also helps where nothing can be copied"
    if speed.drafts + speed.copies == 0.0:
        sentence = "nothing was drafted or copied, so this is plain decoding"
        more = f"-k 4 drafts nevertheless, or {learn}" if learns else learn
        return PairVerdict(False, sentence, more, speed.ratio)
    if speed.texts < FEW_TEXTS:
        sentence = f"{counted(speed.texts, 'text')} cannot tell whether it is faster: {speed.ratio:.2f}x of "
        return PairVerdict(
            False, f"{sentence}plain decoding {what}, {speed.parts}", f"give {FEW_TEXTS} or more", speed.ratio
        )
    by = "almost all by copies, which need no drafter, " if learns and speed.drafts < _LITTLE else ""
    if low > 1.0:
        return PairVerdict(True, f"faster, {by}{figures}", "", speed.ratio)
    if high < 1.0:
        return PairVerdict(False, f"slower: {figures}", f"use --mode plain, or {learn}", speed.ratio)
    return PairVerdict(False, f"no certain difference: {figures}", learn, speed.ratio)


def counted_texts(manifest: Mapping[str, Any]) -> list[Statistics] | None:
    """The counts that a manifest tells; None where it tells none, or a value is out of its range.

    No runtime needs them, so that a fault in them refuses no bundle.
    """
    try:
        entries = manifest["checks"]["texts"]
        if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_TEXTS:
            return None
        texts = [_counted(mapping(each)) for each in entries]
    except (KeyError, TypeError, ValueError):
        return None
    return texts if all(text.rounds for text in texts) else None


def _counted(data: Mapping[str, Any]) -> Statistics:
    most = 1 << 20
    lengths, copied = (
        {_LENGTHS[key]: integer(n, 1, most) for key, n in mapping(data[name]).items()}
        for name in ("lengths", "copied_lengths")
    )
    emitted, accepted = integer(data["emitted"], 1, most), integer(data["accepted"], 0, most)
    return Statistics(
        rounds=sum(lengths.values()) + sum(copied.values()),
        accepted=accepted,
        accepted_copies=integer(data["accepted_copies"], 0, accepted),
        emitted=emitted,
        lengths=lengths,
        copied_lengths=copied,
    )


def chance_verdict(of_drafted: float) -> PairVerdict:
    """The verdict on a drafter whose tokens are not accepted."""
    return PairVerdict(
        False,
        f"the drafter guesses no better than chance: {of_drafted:.1%} of its tokens were accepted",
        "take another drafter, or train it for this target (docs/training.md)",
    )


def vocabulary_verdict(target: Tokenizer, vocab_map: VocabMap) -> PairVerdict:
    """Whether a drafter can write what a target says."""
    text = [token for token, data in enumerate(target.tokens) if data]
    pieces = vocab_map.spellings.lengths[text]
    share = float(np.mean(pieces > 0)) if text else 1.0
    if share >= _WHOLE:
        return PairVerdict(
            True,
            f"the vocabularies go together: the drafter can write {share:.1%} of the target's text tokens, "
            f"{np.mean(pieces == 1):.1%} as one token of its own and the others in pieces",
        )
    missing = sorted((target.tokens[text[i]] or b"" for i in np.flatnonzero(pieces == 0)), key=_simplest)
    examples = ", ".join(repr(data.decode("utf-8", "replace")) for data in missing[:_EXAMPLES])
    how = "do not go together" if share < _HALF else "go together only in part"
    return PairVerdict(
        False,
        f"the vocabularies {how}: the drafter cannot write {1.0 - share:.1%} of the target's text tokens, "
        f"such as {examples}, and a draft ends where the target says one of them",
        "take a drafter whose tokenizer writes every byte: byte-level BPE, or byte fallback",
    )


def _simplest(token: bytes) -> tuple[bool, int, bytes]:
    """Order of examples: text that people write first, short tokens before long ones."""
    usual = token.isascii() and (token.decode().isprintable() or not token.strip(b"\n\t "))
    return not usual, len(token), token


def kept_codes(role: str, kinds: Sequence[str], coded: bool, quantization: str) -> str | None:
    """What a user should know of weights that came from a GGUF file; None where nothing is to be said."""
    held = ", ".join(kinds)
    if coded and quantization.startswith("int"):
        return (
            f"the {role} was rounded a second time, to {quantization}: its file has {held}, which are taken "
            "as they are without --quant"
        )
    if not coded and quantization.startswith("gguf"):
        return (
            f"the {role} is not quantised, as in its file ({held}); --quant int8 or int4 makes it smaller "
            "and faster"
        )
    return None
