"""Recorded sessions as training positions: the drafter's contexts and the target's distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from omnidraft import load, read_traces
from omnidraft.learning.positions.alignment import Aligned, Aligner, SparseDistributions
from omnidraft.learning.positions.draft_targets import DraftDistribution, full_trie, root_distribution
from omnidraft.learning.positions.from_traces import TraceAligner, from_traces
from omnidraft.learning.positions.target_rows import TargetRows
from omnidraft.runtime.traces.trace import FLOOR, TOP
from omnidraft.runtime.vocab.trie import ActiveTrie
from support.adapters import adapter_of
from support.aligning import dense_rows
from support.places import STARTERS
from support.toy import DRAFT

START = (DRAFT.index("#"),)
Distributions = npt.NDArray[np.floating]


def same(actual: Aligned, expected: Aligned) -> None:
    """The same places, and distributions that agree as far as float16 tells."""
    assert actual.draft_ids.tolist() == expected.draft_ids.tolist()
    assert actual.prompt_length == expected.prompt_length
    assert actual.tokens.tolist() == expected.tokens.tolist()
    assert actual.rows.tolist() == expected.rows.tolist()
    distributions, others = actual.trie_distributions, expected.trie_distributions
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


def cut_rows(p: Distributions, tokens: list[int]) -> TargetRows:
    """Rows cut as in a trace, but exact."""
    ids = np.full((len(p), TOP + 1), -1, dtype=np.int32)
    kept = np.zeros((len(p), TOP + 1))
    for i, row in enumerate(p):
        best = np.argsort(-row, kind="stable")[:TOP]
        best = np.union1d(best[row[best] >= FLOOR], [tokens[i]])
        ids[i, : len(best)], kept[i, : len(best)] = best, row[best]
    return TargetRows(ids, kept, np.maximum(0.0, 1.0 - kept.sum(axis=1)))


def cut_root(trie: ActiveTrie, rows: TargetRows, i: int) -> DraftDistribution | None:
    """A root distribution of whole rows with as many ids as in a trace."""
    distribution = root_distribution(trie, rows, i)
    if distribution is None:
        return None
    distribution = distribution.top(TOP)
    kept = distribution.probabilities * distribution.weight >= FLOOR
    return DraftDistribution(
        distribution.ids[kept],
        distribution.probabilities[kept],
        distribution.other + float(distribution.probabilities[~kept].sum()),
        distribution.weight,
    )


def test_a_session_of_the_starters_aligns_as_torch_does(bundle: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    session = load(bundle, trace=tmp_path / "trace")
    questions = ["How many legs do 3 cats have?", "def reverse(x):\n    return"]
    answers = [
        session.generate(q, max_new_tokens=32, temperature=t, seed=4).finish()
        for q in questions
        for t in (0.0, 0.9)
    ]
    bos = session.bundle.drafter.bos_id
    aligner = Aligner(full_trie(session.vocab_map), 256)
    responses = list(
        from_traces(read_traces(tmp_path / "trace"), TraceAligner(aligner, () if bos is None else (bos,)))
    )
    target = AutoModelForCausalLM.from_pretrained(STARTERS / "a", dtype=torch.float32)
    for aligned, answer, question in zip(
        responses, answers, [q for q in questions for _ in range(2)], strict=True
    ):
        prompt = session.encode(question)
        with torch.no_grad():
            logits = target(torch.tensor([[*prompt, *answer.token_ids]])).logits[0, len(prompt) - 1 : -1]
        p = logits.double().softmax(-1).numpy()
        whole = dense_rows(p)
        roots = [cut_root(aligner.trie, whole, i) for i in range(len(p))]
        draft_prompt = [*([] if bos is None else [bos]), *session.loaded.draft_prompt(prompt)]
        same(
            aligned, aligner.align(draft_prompt, answer.token_ids, cut_rows(p, answer.token_ids), roots=roots)
        )


def test_another_drafter_adapter_changes_nothing_of_what_is_learned(bundle: Path, tmp_path: Path) -> None:
    """The adapter changes in the middle of an answer: two records, one response."""
    session = load(bundle, trace=tmp_path / "trace")
    answer = session.generate("Once upon a time", max_new_tokens=16, ignore_eos=True, num_draft_tokens=2)
    for i, _ in enumerate(answer):
        if i == 2:
            session.use_adapter(adapter_of(session.bundle, "drafter"))
    records = list(read_traces(tmp_path / "trace"))
    aligner = TraceAligner(Aligner(full_trie(session.vocab_map), 256), START)
    (aligned,) = from_traces(records, aligner)
    assert len(records) == 2 and aligned.tokens.tolist() == answer.token_ids
