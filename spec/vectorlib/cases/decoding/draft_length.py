"""Vectors of `draft_length`: measured costs and the outcome of each round -> the lengths."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from vectorlib.reference.draft_length import Costs, DraftLength
from vectorlib.writer import VectorWriter, vector

DEFAULTS = Path(__file__).resolve().parents[3] / "defaults.json"

CHEAP = Costs((0.1, 0.101, 0.102, 0.103), 0.002, 0.0005)  # a draft token costs 2 % of a target pass
EVEN = Costs((0.02, 0.021, 0.0225, 0.024, 0.026), 0.004, 0.001)
EXPENSIVE = Costs((0.004, 0.006, 0.008317), 0.005, 0.001)  # a draft token costs more than a target token
FLAT = Costs((0.05,), 0.001, 0.0)  # one measured pass: longer passes are assumed to cost the same

# Outcomes, (evaluated, accepted_drafts, emitted) as shares of the drafted tokens; cycled over the rounds.
ALL, NONE, HALF, MERGED = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (1.0, 1.0, 0.5)
LONG = (1.0, 0.5, 2.0)
CASES: list[tuple[Any, ...]] = [
    ("first", "before any round: the prior only", EVEN, 1, [ALL]),
    ("always_right", "everything is accepted: the longest", EVEN, 24, [ALL]),
    ("always_wrong", "the first token is rejected each time: soon 0, then probes", EVEN, 60, [NONE]),
    ("half", "half of each draft is accepted", EVEN, 24, [HALF]),
    ("merged", "two draft tokens make one target token: drafting pays less", EVEN, 24, [MERGED]),
    ("expanded", "a draft token makes several target tokens: the ratio stops at 1.5", EVEN, 24, [LONG]),
    ("changing", "good and bad rounds alternate", EVEN, 24, [ALL, NONE, HALF]),
    ("cheap_wrong", "a cheap drafter goes on after many rejections", CHEAP, 40, [NONE]),
    ("cheap_right", "nearly free drafting", CHEAP, 12, [ALL]),
    ("expensive", "drafting never pays: only probes, each after about twice the wait",
     EXPENSIVE, 700, [NONE]),
    ("expensive_for_long", "a probe's share stops shrinking, the wait ends at 1,024",
     EXPENSIVE, 5000, [NONE]),
    ("expensive_but_right", "probes succeed; drafting returns only if it pays", EXPENSIVE, 400, [ALL]),
    ("measured_hopeless", "the export measured that nothing is accepted: plain at first",
     replace(EVEN, acceptance=0.03), 60, [NONE]),
    ("measured_good", "the export measured an acceptance of 0.9", replace(EVEN, acceptance=0.9), 24, [HALF]),
    ("measured_wrong", "measured as hopeless, but all is accepted: a probe detects it",
     replace(EVEN, acceptance=0.05), 90, [ALL]),
    ("long_prompt", "1,500 tokens to read first: it would not pay", replace(EVEN, read=0.0004), 300,
     [ALL], 1500),
    ("prompt", "100 tokens to read first: it pays, with fewer draft tokens", replace(EVEN, read=0.0004), 24,
     [HALF], 100),
    ("middling_prompt", "1,000 tokens to read first: 64 tokens would not earn it back",
     replace(EVEN, read=0.0004), 24, [ALL], 1000),
    ("unread_grows", "tokens emitted without a draft have to be read too",
     replace(EXPENSIVE, read=0.0002), 1100,
     [NONE], 40),
    ("one_measured_pass", "one measured pass has no slope", FLAT, 12, [HALF]),
    ("comes_back", "bad rounds, then a probe that succeeds", EVEN, 90, [NONE] * 12 + [ALL] * 78),
]  # fmt: skip
# Texts of one session: (unread tokens, limit, rounds, outcomes) of each.
READER = replace(EVEN, read=0.000103, host=0.00101)
TEXTS: list[tuple[Any, ...]] = [
    ("counts_go_on", "the second text begins with the counts of the first", EVEN,
     [(0, None, 12, [NONE]), (0, None, 12, [NONE]), (0, None, 60, [ALL])]),
    ("probes_over_texts", "no single text is long enough for a probe, but all together are",
     replace(EVEN, acceptance=0.05, host=0.00107), [(0, None, 7, [ALL])] * 8),
    ("short_texts", "300 tokens to read for texts of 3 to 6: after some texts it does not pay",
     READER, [(300, None, 2, [HALF])] * 8),
    ("short_then_long", "after one long text reading pays again",
     READER, [(300, None, 2, [HALF])] * 5 + [(300, None, 150, [HALF]), (300, None, 3, [HALF])]),
    ("nothing_emitted", "a text that ended before its first round does not change the usual length",
     READER, [(300, None, 2, [HALF])] + [(300, None, 0, [])] * 6 + [(300, None, 2, [HALF])]),
    ("limits", "reading does not pay for at most 12 tokens, but for at most 200",
     READER, [(600, 12, 4, [HALF]), (600, 200, 4, [HALF]), (600, 12, 11, [HALF]), (0, 12, 4, [HALF])]),
]  # fmt: skip
# Which verification "auto" takes, by the costs of a round and the target's vocabulary.
CHOICES: list[tuple[str, str, Costs, int]] = [
    ("auto_short_round", "block verification would cost more than it gains", EXPENSIVE, 32_000),
    ("auto_long_round", "a pass of 0.1 s: block verification pays", CHEAP, 151_936),
    ("auto_starter", "a round of 2 ms", Costs((0.0006, 0.0007, 0.0008, 0.0009, 0.001), 0.0002, 0.0002), 4096),
    ("auto_small_vocabulary", "a round of 40 ms and 160,000 tokens", Costs((0.04,), 0.0, 0.0), 160_000),
    ("auto_large_vocabulary", "a round of 40 ms and 170,000 tokens: every row has a cost", Costs((0.04,), 0.0,
     0.0), 170_000),
    ("auto_five_tokens", "the pass over 5 tokens decides, not the pass over 1", Costs((0.001, 0.1), 0.0, 0.0),
     4096),
]  # fmt: skip

# Rounds with a head: its probabilities after each token, cycled over the rounds; the threshold, None for
# auto; for several texts, the unread tokens of each.
SURE, DOUBT, MIXED, DROP = (0.99,) * 11, (0.3,) * 11, (0.95, 0.9, 0.4, 0.9, 0.2), (0.98, 0.97, 0.02)
HEADED: list[tuple[Any, ...]] = [
    ("sure", "drafts grow to the longest", EVEN, 12, [ALL], [SURE], None),
    ("doubting", "drafts end at once, and then drafting does not pay", EVEN, 60, [NONE], [DOUBT], None),
    ("mixed", "each round has another head output", EVEN, 24, [ALL, HALF], [MIXED, DROP, SURE], None),
    ("nearly_free", "a token whose distribution is known takes no pass", CHEAP, 12, [HALF], [DROP], None),
    ("expensive_headed", "a drafter that costs more than the target", EXPENSIVE, 400, [NONE], [MIXED], None),
    ("merged_headed", "two draft tokens make one target token", EVEN, 24, [MERGED], [SURE, MIXED], None),
    ("threshold_low", "0.3: the draft ends after the first low probability",
     EVEN, 12, [HALF], [MIXED, DROP], 0.3),
    ("threshold_high", "0.7: the draft ends later", EVEN, 12, [HALF], [MIXED, DROP], 0.7),
    ("taken_away", "rounds with a head, then without", EVEN, 30, [HALF], [SURE] * 12 + [()] * 18, None),
    ("read_headed", "texts of 8 rounds; with a head, reading 100 tokens pays, reading 9,000 does not",
     READER, 32, [ALL], [SURE], None, (0, 100, 9000, 0)),
]  # fmt: skip
TEXT_ROUNDS = 8  # rounds of each text, in a vector with a head and several texts


def write(writer: VectorWriter) -> None:
    defaults = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    writer.vectors("draft_length", "measured", [_case(defaults["draft_length"], *case) for case in CASES])
    writer.vectors("draft_length", "texts", [_texts(defaults["draft_length"], *case) for case in TEXTS])
    writer.vectors(
        "draft_length",
        "headed",
        [_headed(defaults["draft_length"], name, why, Headed(*case)) for name, why, *case in HEADED],
    )
    writer.vectors("draft_length", "verification", [_choice(defaults, *case) for case in CHOICES])


def _case(
    defaults: dict[str, float],
    name: str,
    why: str,
    costs: Costs,
    rounds: int,
    outcomes: Sequence[tuple[float, float, float]],
    unread: int = 0,
) -> dict[str, Any]:
    lengths, records = _run(DraftLength(costs, defaults, unread), rounds, outcomes)
    return vector(
        name, why, {"costs": asdict(costs), "unread": unread, "records": records}, {"lengths": lengths}
    )


def _texts(
    defaults: dict[str, float],
    name: str,
    why: str,
    costs: Costs,
    texts: Sequence[tuple[int, int | None, int, Sequence[tuple[float, float, float]]]],
) -> dict[str, Any]:
    length, given, expect = DraftLength(costs, defaults, 0), [], []
    for unread, limit, rounds, outcomes in texts:
        length.start_text(unread, limit)
        lengths, records = _run(length, rounds, outcomes)
        given.append({"unread": unread, "limit": limit, "records": records})
        expect.append({"lengths": lengths})
    return vector(name, why, {"costs": asdict(costs), "texts": given}, {"texts": expect})


def _run(
    length: DraftLength, rounds: int, outcomes: Sequence[tuple[float, float, float]]
) -> tuple[list[list[int]], list[list[int]]]:
    """DraftLength that are chosen, and what becomes of each round."""
    lengths: list[list[int]] = []
    records: list[list[int]] = []
    for i in range(rounds):
        drafted = length.next()
        evaluated, accepted_drafts, emitted = (int(share * drafted) for share in outcomes[i % len(outcomes)])
        record = (drafted, max(evaluated, min(1, drafted)), accepted_drafts, emitted + 1)
        length.record(*record)
        lengths.append([drafted])
        records.append(list(record))
    return _runs(lengths), _runs(records)


@dataclass(frozen=True)
class Headed:
    """Rounds with a head."""

    costs: Costs
    rounds: int
    outcomes: Sequence[tuple[float, float, float]]
    heads: Sequence[Sequence[float]]
    threshold: float | None
    texts: Sequence[int] = ()


def _headed(defaults: dict[str, float], name: str, why: str, case: Headed) -> dict[str, Any]:
    length, given, expect = DraftLength(case.costs, defaults, 0), [], []
    for i in range(case.rounds):
        start: dict[str, Any] = {}
        if case.texts and not i % TEXT_ROUNDS:
            start = {"unread": case.texts[i // TEXT_ROUNDS]}
            length.start_text(start["unread"])
        longest = length.next()
        drawn, answers = _headed_draft(length, longest, case.heads[i % len(case.heads)], case.threshold)
        evaluated, accepted_drafts, emitted = (
            int(share * drawn) for share in case.outcomes[i % len(case.outcomes)]
        )
        record = [drawn, max(evaluated, min(1, drawn)), accepted_drafts, emitted + 1]
        length.record(*record)
        given.append({**start, "asks": [answer[:2] for answer in answers], "record": record})
        expect.append({"length": longest, "more": [answer[2] for answer in answers]})
    costs = {"costs": asdict(case.costs), "threshold": case.threshold}
    return vector(name, why, {**costs, "rounds": given}, {"rounds": expect})


def _headed_draft(
    length: DraftLength, longest: int, head: Sequence[float], threshold: float | None
) -> tuple[int, list[list[float]]]:
    """How many tokens are drawn, and the questions to `more` with their answers."""
    drawn, count, survival, answers = 0, longest, 1.0, list[list[float]]()
    outputs = iter(head)
    while drawn < count:
        if drawn and (probability := next(outputs, None)) is not None:
            survival *= probability
            more = length.more(drawn, survival, threshold)
            answers.append([drawn, survival, more])
            count = min(longest, drawn + more)
            if drawn >= count:
                break
        drawn += 1
    return drawn, answers


def _choice(
    defaults: dict[str, dict[str, float]], name: str, why: str, costs: Costs, vocab_size: int
) -> dict[str, Any]:
    block = defaults["block"]
    seconds = costs.of_round(int(block["usual_draft"]))
    extra = block["extra_seconds"] + block["extra_seconds_per_token"] * vocab_size
    given = {"costs": asdict(costs), "vocab_size": vocab_size}
    return vector(name, why, given, {"verification": "block" if block["gain"] * seconds > extra else "token"})


def _runs(rows: Sequence[list[int]]) -> list[list[int]]:
    """Each run of equal rows as one row, with the length of the run in front."""
    return [[len(list(same)), *row] for row, same in groupby(rows)]
