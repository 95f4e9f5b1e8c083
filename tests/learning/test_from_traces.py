"""From recorded generations to training positions: the same as from the responses' own rows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft.errors import SettingError
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import full_trie, root_distribution
from omnidraft.learning.positions.from_traces import TraceAligner, from_traces, joined, rows_of
from omnidraft.learning.positions.target_rows import dense_rows
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.decoding.speculate import Round
from omnidraft.runtime.session.decode import DecoderModels, decode_prompt
from omnidraft.runtime.session.modes import MODES, Mode
from omnidraft.runtime.traces.trace import FLOOR, Masses, Start, Traced, TracedRound
from omnidraft.runtime.vocab.trie import ActiveTrie
from support.configs import config_of
from support.places import ROOT
from support.toy import DRAFT, TARGET, ContextModel, softmax, toy_cache, toy_map
from support.tracing import Collector

TOY = toy_map()
START = (DRAFT.index("#"),)
PROMPT = [0, 3, 1]  # means the same in both toy vocabularies
TOYS = TraceAligner(Aligner(full_trie(TOY), max_length=400), START)
Distributions = npt.NDArray[np.floating]


def recorded(mode: Mode, seed: int, count: int = 40) -> tuple[Traced, Distributions, list[Round]]:
    """A toy generation as a trace has it, and the target's whole distribution before each of its tokens."""
    target = ContextModel(2 * seed, len(TARGET))
    models = DecoderModels(
        target, Drafter(ContextModel(2 * seed + 1, len(DRAFT)), START), toy_cache(TOY, ["FO"])
    )
    config, collector = config_of(mode, SamplingConfig(0.7), count), Collector(TOY)
    length = FixedLength(0 if mode == "plain" else 5)
    random = SplitMix64(seed)
    rounds_run = list(decode_prompt(models, PROMPT, PROMPT, config, length, random, (), collector.of))
    rounds, text = [], list(PROMPT)
    for traced in collector.traced:
        rounds.append(replace(traced, position=len(text)))
        text += traced.pieces
    emitted = [*PROMPT, *(t for each in rounds_run for t in each.emitted)]
    distributions = np.array(
        [softmax(target.row(emitted[:i]), 1.0) for i in range(len(PROMPT), len(emitted))]
    )
    return (
        Traced(Start(None, None, 0.7, mode, False, 0, tuple(PROMPT)), tuple(rounds)),
        distributions,
        rounds_run,
    )


def same(actual: Aligned, expected: Aligned) -> None:
    """The same places and labels, and distributions that agree as far as float16 tells."""
    assert actual.draft_ids.tolist() == expected.draft_ids.tolist()
    assert actual.prompt_length == expected.prompt_length
    assert actual.owners.tolist() == expected.owners.tolist()
    for name in ("ids", "rows", "lengths", "direct", "starts", "ends"):
        assert getattr(actual.tokens, name).tolist() == getattr(expected.tokens, name).tolist(), name
    known = ~np.isnan(expected.tokens.probabilities)  # a trace keeps those too that are not in the row
    assert np.isfinite(actual.tokens.probabilities).all()
    ours, theirs = (x.tokens.probabilities[known] for x in (actual, expected))
    assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-9)
    for distributions, others in (
        (actual.trie_distributions, expected.trie_distributions),
        (actual.direct_distributions, expected.direct_distributions),
    ):
        assert distributions.rows.tolist() == others.rows.tolist()
        for n in range(len(distributions)):
            same_distribution(distributions, others, n)


def same_distribution(distributions: SparseDistributions, others: SparseDistributions, n: int) -> None:
    a, b = (
        {int(d): x for d, x in zip(s.ids[n], s.probabilities[n], strict=True) if d >= 0}
        for s in (distributions, others)
    )
    assert all(a[d] == pytest.approx(b[d], rel=2e-3, abs=3 * FLOOR) for d in a.keys() & b.keys())
    # What only one of them lists is as likely as the last that the other lists, or about the floor.
    for s, t in ((a, b), (b, a)):
        most = max(1.002 * min(t.values(), default=0.0), 3 * FLOOR)
        assert all(s[d] <= most for d in s.keys() - t.keys()), (s, t)
    assert distributions.other[n] == pytest.approx(others.other[n], abs=2e-3)
    assert distributions.weights[n] == pytest.approx(others.weights[n], abs=2e-3)


@pytest.mark.parametrize("mode", MODES)
def test_a_trace_is_aligned_as_its_responses_own_rows(mode: Mode) -> None:
    inside = 0
    for seed in range(8):
        traced, distributions, run = recorded(mode, seed)
        ids = [t for each in run for t in each.emitted]
        inside += sum(token.inside for token in traced.tokens)
        aligned = TOYS.align(traced)
        assert aligned is not None
        same(aligned, TOYS.aligner.align([*START, *PROMPT], ids, dense_rows(distributions)))
        assert aligned.target_rows.finite
    assert mode != "trie" or inside  # what a long draft token wrote has draft positions like all others


def test_only_active_spellings_are_taught_from_a_trace_too() -> None:
    """The recorded masses at the root are of the whole trie, so with a part of it the cut rows serve."""
    cold = Aligner(ActiveTrie(TOY), max_length=400)
    traced, distributions, run = recorded("trie", 3)
    aligned = replace(TOYS, aligner=cold).align(traced)
    assert aligned is not None
    ids = [t for each in run for t in each.emitted]
    same(aligned, cold.align([*START, *PROMPT], ids, dense_rows(distributions)))


def test_the_recorded_root_is_that_of_the_whole_distribution() -> None:
    """More than 64 ids have mass: the cut row does not know where the tail goes, the recorded root does."""
    traced, _, _ = recorded("trie", 1)
    cut = [
        replace(
            t,
            distribution=replace(
                t.distribution,
                ids=t.distribution.ids[:1],
                probabilities=t.distribution.probabilities[:1],
                rest=1.0 - float(t.distribution.probabilities[0]),
            ),
        )
        for t in traced.tokens
    ]
    sure = replace(traced, rounds=(replace(traced.rounds[0], tokens=tuple(cut)),))
    aligned, whole = TOYS.align(sure), TOYS.align(traced)
    assert aligned is not None and whole is not None
    same_distribution(aligned.trie_distributions, whole.trie_distributions, 0)
    guess = root_distribution(TOYS.aligner.trie, rows_of(cut), 0)
    assert guess is not None and guess.other > aligned.trie_distributions.other[0] + 0.05


def test_an_improbable_token_keeps_its_probability() -> None:
    traced, _, _ = recorded("trie", 2)
    token = traced.tokens[0]
    others = token.distribution.ids != token.token_id
    distribution = replace(
        token.distribution,
        ids=token.distribution.ids[others],
        probabilities=token.distribution.probabilities[others],
    )
    distribution = replace(distribution, rest=1.0 - float(distribution.probabilities.sum(dtype=np.float64)))
    rows = rows_of([replace(token, distribution=distribution)])
    assert rows.finite
    assert rows.of(0, token.token_id) == pytest.approx(np.exp(-token.surprisal), rel=1e-3)
    assert rows.of(0, -1) is None or rows.rest[0] == 0.0


def test_a_token_beyond_those_that_are_kept_leaves_the_others_as_they_were() -> None:
    """By hand: 0.2 of the 0.3 that is not listed was said, so 0.1 is left of it."""
    token = recorded("trie", 2)[0].tokens[0]
    distribution = Masses(np.array([1, 2]), np.array([0.4, 0.3], np.float16), 0.3)
    rows = rows_of([replace(token, token_id=5, surprisal=-float(np.log(0.2)), distribution=distribution)])
    assert rows.ids.tolist() == [[1, 2, 5]]
    np.testing.assert_allclose(rows.probabilities, [[0.4, 0.3, 0.2]], atol=1e-3)
    assert rows.rest[0] == pytest.approx(0.1, abs=1e-3)


# Records


def parts(traced: Traced, *cuts: int) -> list[Traced]:
    """A generation in several records, as segments and adapters cut it."""
    records, text = [], [*traced.start.context]
    for low, high in zip((0, *cuts), (*cuts, len(traced.rounds)), strict=True):
        start = replace(traced.start, continues=low > 0, context=tuple(text))
        records.append(Traced(start, traced.rounds[low:high]))
        text += [d for each in records[-1].rounds for d in each.pieces]
    return records


def plainly(traces: Iterable[Traced]) -> list[tuple[Start, tuple[TracedRound, ...]]]:
    return [(t.start, t.rounds) for t in traces]


def test_records_of_one_generation_are_joined() -> None:
    one, other = recorded("trie", 4)[0], recorded("match", 5)[0]
    a, b = parts(one, 2, 3), parts(other, 1)
    assert plainly(joined([a[0], b[0], b[1], a[1], a[2]])) == plainly([one, other])
    window = replace(a[1], start=replace(a[1].start, skipped=2, context=a[1].start.context[2:]))
    assert plainly(joined([a[0], window])) == [(one.start, one.rounds[:3])]
    whole, (joint,) = TOYS.align(one), from_traces(a, TOYS)
    assert whole is not None
    same(joint, whole)


def test_what_a_pause_or_another_target_cut_off_stays_apart() -> None:
    traced = recorded("trie", 4)[0]
    first, gone, last = parts(traced, 2, 3)
    assert list(joined([first, last])) == [first, last]
    other = replace(gone, start=replace(gone.start, target_adapter="a" * 64))
    assert list(joined([first, other])) == [first, other]
    begun = replace(gone, start=replace(gone.start, continues=False))  # another one, after the same text
    assert list(joined([first, begun])) == [first, begun]
    elsewhere = replace(gone, start=replace(gone.start, skipped=gone.start.skipped + 1))
    assert list(joined([first, elsewhere])) == [first, elsewhere]  # the same end of a longer text
    text = tuple((d + 1) % len(DRAFT) for d in gone.start.context)
    as_long = replace(gone, start=replace(gone.start, context=text))
    assert list(joined([first, as_long])) == [first, as_long]  # another text of the same length
    drafters = replace(gone, start=replace(gone.start, drafter_adapter="a" * 64))
    assert len(list(joined([first, drafters, last]))) == 1
    assert len(list(from_traces([first, last], TOYS))) == 2


def test_another_target_is_refused() -> None:
    traced = recorded("trie", 4)[0]
    other = replace(traced, start=replace(traced.start, target_adapter="ab" * 32))
    with pytest.raises(
        SettingError, match="is of the target with adapter abababababab and not with no adapter"
    ):
        TOYS.align(other)
    with pytest.raises(SettingError, match="with no adapter and not with adapter abababababab"):
        replace(TOYS, target_adapter="ab" * 32).align(traced)
    assert replace(TOYS, target_adapter="ab" * 32).align(other) is not None


def test_what_does_not_fit_is_cut() -> None:
    """From the left the text before, down to half of the length; then what was said last."""
    traced, distributions, run = recorded("trie", 6)
    ids = [t for each in run for t in each.emitted]
    long = replace(traced, start=replace(traced.start, context=tuple(PROMPT * 30)))
    room = 20
    aligned = replace(TOYS, aligner=Aligner(full_trie(TOY), room)).align(long)
    assert aligned is not None
    prompt = [*START, *(PROMPT * 30)[-(room // 2 - 1) :]]
    same(aligned, Aligner(full_trie(TOY), room).align(prompt, ids, dense_rows(distributions)))
    assert len(aligned.draft_ids) <= room and 0 < len(aligned.tokens.ids) < len(ids)
    assert replace(TOYS, aligner=Aligner(full_trie(TOY), 1)).align(traced) is None


def test_nothing_before_the_first_token_is_nothing_to_draft_from() -> None:
    traced = recorded("trie", 6)[0]
    bare = replace(traced, start=replace(traced.start, context=()))
    assert replace(TOYS, start=()).align(bare) is None
    aligned = TOYS.align(bare)
    assert aligned is not None and aligned.prompt_length == 1


def test_learning_from_traces_needs_no_torch() -> None:
    code = "import sys, omnidraft.learning.positions.from_traces; print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert process.stdout.strip() == "False", process.stderr
