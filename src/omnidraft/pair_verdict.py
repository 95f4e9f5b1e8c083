"""Verdicts on a pair of models: does drafting pay, and can the drafter write what the target says?

`export`, `check`, `doctor` and `bench` print them. They are computed from measured costs and counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.runtime.decoding.length_state import LONGEST, Costs
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import VocabMap

CHANCE = 0.02  # a share of accepted draft tokens below this is chance agreement of an untrained pair
_NEAR = 1.05  # an expected speed nearer to plain decoding than this is not told from it: timings vary
_LARGER = 1.05  # bytes of a model file over those of its checkpoint, from which on it is worth a warning
_WHOLE, _HALF = 0.999, 0.5  # shares of the target's text tokens that a drafter can write
_EXAMPLES = 3  # tokens that a drafter cannot write, in a sentence
# Costs and acceptance at export are of drafts; only a benchmark counts what copies of the text add.
_ALONE = ", by drafts alone; the default mode also copies from the text, and `omnidraft bench` times both"
_MOST_RATIO = 1.5  # target tokens for each accepted draft token at most, as in `MeasuredLength.ratio`


@dataclass(frozen=True)
class PairVerdict:
    """One verdict.

    Attributes:
        good: whether nothing needs to be done.
        sentence: the verdict.
        remedy: what to do; empty where the verdict is good.
        num_draft_tokens: the draft length that pays best; 0 where none pays or none is asked for.
        speed_up: measured speed over plain decoding, or the expected speed of the best draft length.
    """

    good: bool
    sentence: str
    remedy: str = ""
    num_draft_tokens: int = 0
    speed_up: float = 1.0

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}" if self.remedy else self.sentence


@dataclass(frozen=True)
class CountedDrafts:
    """What was counted while a pair was tried.

    Attributes:
        of_drafted: accepted draft tokens over all draft tokens.
        tokens_per_target_pass: emitted tokens in a round.
        num_draft_tokens: of each round.
    """

    of_drafted: float
    tokens_per_target_pass: float
    num_draft_tokens: int

    @property
    def ratio(self) -> float:
        """Target tokens for each accepted draft token: a target token may be several draft tokens long."""
        accepted = self.of_drafted * self.num_draft_tokens
        return min(_MOST_RATIO, (self.tokens_per_target_pass - 1.0) / accepted) if accepted > 1e-9 else 0.0


def expected_verdict(costs: Costs, counted: CountedDrafts, quantization: str = "") -> PairVerdict:
    """Whether drafts alone pay, by costs and acceptance that were measured.

    Args:
        costs: of this device; `costs.acceptance` is the probability that a draft token is accepted.
        counted: while the pair was tried.
        quantization: of the target, for the advice; empty where that is unknown.
    """
    tokens = [1.0 + counted.ratio * _expected(costs.acceptance, k) for k in range(LONGEST + 1)]
    seconds = [costs.round_seconds(k) for k in range(LONGEST + 1)]
    speeds = [n * seconds[0] / s for n, s in zip(tokens, seconds, strict=True)]  # over plain decoding
    if counted.of_drafted < CHANCE:
        return chance_verdict(counted.of_drafted)
    k = max(range(1, LONGEST + 1), key=speeds.__getitem__)
    pays = k if speeds[k] > 1.0 else 0
    expected = f"{speeds[k]:.2f}x of plain decoding is expected here at k = {k}"
    if speeds[k] >= _NEAR:
        return PairVerdict(True, f"drafting pays: {expected}{_ALONE}", "", pays, speeds[k])
    if speeds[k] > 1.0 / _NEAR:
        sentence = f"drafting makes no certain difference: {expected}{_ALONE}"
        remedy = "it gains more once the drafter learned (`omnidraft adapt`)"
        return PairVerdict(False, sentence, remedy, pays, speeds[k])
    draft = "one draft token takes" if k == 1 else f"{k} draft tokens takes"
    sentence = (
        f"drafting does not pay: {expected}, because a round with {draft} the time of "
        f"{seconds[k] / seconds[0]:.2f} plain tokens and gives {tokens[k]:.2f}{_ALONE}"
    )
    return PairVerdict(False, sentence, _cheaper_or_better(seconds, quantization), pays, speeds[k])


def chance_verdict(of_drafted: float) -> PairVerdict:
    """The verdict on a drafter whose tokens are not accepted."""
    return PairVerdict(
        False,
        "drafting does not pay, because the drafter guesses no better than chance: "
        f"{of_drafted:.1%} of its tokens were accepted",
        "take another drafter, or train it for this target (docs/training.md)",
    )


def measured_verdict(
    speed_up: float, interval: tuple[float, float], drafted: int, copied: int = 0, share: float = 0.0
) -> PairVerdict:
    """Whether drafting paid in a benchmark.

    Args:
        speed_up: over plain decoding.
        interval: 95 % of it.
        drafted: number of draft tokens.
        copied: number of tokens that were copied from the text so far.
        share: of the accepted tokens, those that were copies.
    """
    low, high = interval
    what = "copying" if not drafted else "drafting with copies" if copied else "drafting"
    if not drafted and not copied:
        sentence = "nothing was drafted, because by the costs of this machine plain decoding is faster"
        return PairVerdict(False, sentence, "-k 4 drafts nevertheless", speed_up=speed_up)
    measured = f"{speed_up:.2f}x of plain decoding ({low:.2f}-{high:.2f})"
    if drafted and copied:
        measured += f", and {share:.0%} of the tokens gained were copies of the text, which need no drafter"
    if low > 1.0:
        return PairVerdict(True, f"{what} pays here: {measured}", speed_up=speed_up)
    if high < 1.0:
        remedy = "use -k auto or --plain, or let the drafter learn this kind of text (`omnidraft adapt`)"
        return PairVerdict(False, f"{what} does not pay here: {measured}", remedy, speed_up=speed_up)
    remedy = (
        "more prompts narrow the interval, and at temperature 0 a drafter that has learned gains more "
        "(`omnidraft adapt`)"
    )
    return PairVerdict(False, f"{what} makes no certain difference here: {measured}", remedy, 0, speed_up)


def vocabulary_verdict(target: Tokenizer, vocab_map: VocabMap) -> PairVerdict:
    """Whether a drafter can write what a target says.

    Args:
        target: its tokenizer.
        vocab_map: which draft tokens write which target tokens.
    """
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


def larger_file(role: str, written: int, checkpoint: int, quantization: str) -> str | None:
    """A warning where the file of a quantised model is larger than its checkpoint; None where it is not.

    Args:
        role: target or drafter.
        written: bytes of the model in the bundle.
        checkpoint: bytes of the weights that it was made from; 0 where that is unknown.
        quantization: how it is stored, for people.
    """
    if not checkpoint or written <= _LARGER * checkpoint or quantization.startswith("fp32"):
        return None
    change = f"{written / checkpoint:.2f} times the size of its checkpoint"
    smaller = "" if "-e" in quantization else "; --embedding int8 stores the embedding in a quarter"
    return f"the {role} as {quantization} has {change}{smaller}"


def kept_codes(role: str, kinds: Sequence[str], coded: bool, quantization: str) -> str | None:
    """What a user should know of weights that came from a GGUF file; None where nothing is to be said.

    Args:
        role: target or drafter.
        kinds: the types of the file's matrices.
        coded: whether some of them are codes.
        quantization: how the model is stored, for people.
    """
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


def _expected(acceptance: float, num_draft_tokens: int) -> float:
    """Expected number of accepted draft tokens of a round."""
    return sum(acceptance**j for j in range(1, num_draft_tokens + 1))


def _cheaper_or_better(seconds: Sequence[float], quantization: str) -> str:
    """What would make drafting pay.

    Args:
        seconds: of a round, by number of draft tokens.
        quantization: of the target.
    """
    is_int4 = quantization.startswith("int4")
    blocks = "; a block of tokens costs less with --quant fp32 or int8" if is_int4 else ""
    perfect = max((k + 1) * seconds[0] / seconds[k] for k in range(len(seconds)))
    if perfect < 1.2:
        return f"even a perfect drafter would not pay{blocks}"
    return f"a drafter that is better or smaller pays sooner, and it learns with `omnidraft adapt`{blocks}"
