"""Vectors of `draft_length`: measured costs and the outcome of each round -> the plans."""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from vectorlib.reference.draft_length import Costs, DraftLength, Plan, Record
from vectorlib.writer import VectorWriter, vector

DEFAULTS = Path(__file__).resolve().parents[3] / "defaults.json"

WORSE = Costs((0.02, 0.021, 0.022, 0.023, 0.024), 0.00103, 0.00107, acceptance=0.05)
CHEAP = Costs((0.1, 0.101, 0.102, 0.103), 0.00203, 0.00051)  # a draft token costs 2 % of a target pass
EVEN = Costs((0.02, 0.021, 0.0225, 0.024, 0.026), 0.00407, 0.00103)
EXPENSIVE = Costs((0.004, 0.006, 0.008317), 0.00503, 0.00107)  # a draft token costs more than a target token
SLOW = Costs((0.02, 0.021, 0.022, 0.023, 0.024, 0.025), 0.0301, 0.00103)  # drafting never pays
FLAT = Costs((0.05,), 0.00103, 0.0)  # one measured pass: longer passes are assumed to cost the same

# Outcomes of rounds with a draft, (evaluated, accepted_drafts, emitted) as shares of the drafted tokens.
Outcome = tuple[float, float, float]
ALL, NONE, HALF, MERGED = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (1.0, 1.0, 0.5)
LONG = (1.0, 0.5, 2.0)
# The context before each round, cycled: (tokens of the match, tokens that a copy has right).
Context = tuple[int, int]
NOTHING, WRONG, RIGHT, PART = (0, 0), (3, 0), (4, 40), (2, 3)


@dataclass(frozen=True)
class Text:
    """A text of a case: rounds, and what comes of them.

    Attributes:
        classes: of the confidence of the draft tokens of each round, cycled.
        context: tokens of the drafter's first context, and how many of them the text before shares.
    """

    rounds: int
    outcomes: Sequence[Outcome]
    contexts: Sequence[Context] = (NOTHING,)
    context: tuple[int, int] = (0, 0)
    classes: Sequence[int] = (5,)


CASES: list[tuple[str, str, Costs, list[Text]]] = [
    ("first", "before any round: the prior only", EVEN, [Text(1, [ALL])]),
    ("always_right", "everything is accepted: the longest", EVEN, [Text(24, [ALL])]),
    ("always_wrong", "the first token is rejected each time: soon 0, then probes", EVEN, [Text(150, [NONE])]),
    ("half", "half of each draft is accepted", EVEN, [Text(24, [HALF])]),
    ("merged", "two draft tokens make one target token: drafting pays less", EVEN, [Text(24, [MERGED])]),
    ("expanded", "a draft token makes several target tokens: the ratio stops at 1.5", EVEN,
     [Text(24, [LONG])]),
    ("changing", "good and bad rounds alternate", EVEN, [Text(24, [ALL, NONE, HALF])]),
    ("cheap_wrong", "a cheap drafter goes on after many rejections", CHEAP, [Text(90, [NONE])]),
    ("cheap_right", "nearly free drafting", CHEAP, [Text(12, [ALL])]),
    ("expensive", "drafting never pays: only probes, each after about twice the wait", EXPENSIVE,
     [Text(12000, [NONE])]),
    ("measured_hopeless", "the export measured that nothing is accepted: plain at first",
     replace(EVEN, acceptance=0.03), [Text(160, [NONE])]),
    ("measured_good", "the export measured an acceptance of 0.9", replace(EVEN, acceptance=0.9),
     [Text(24, [HALF])]),
    ("measured_wrong", "measured as hopeless, but all is accepted: a probe detects it",
     replace(EVEN, acceptance=0.05), [Text(160, [ALL])]),
    ("one_measured_pass", "one measured pass has no slope", FLAT, [Text(12, [HALF])]),
    ("comes_back", "bad rounds, then a probe that succeeds", EVEN, [Text(160, [NONE] * 40 + [ALL] * 120)]),
    ("share_again", "a probe succeeds and drafts follow: the next probe has the first share again",
     replace(EVEN, acceptance=0.3), [Text(240, [ALL])]),
    ("copies_right", "matches whose copies are right: the longest copy", EVEN, [Text(40, [HALF], [RIGHT])]),
    ("copies_wrong", "matches whose copies are wrong are compared and soon not proposed", EVEN,
     [Text(40, [HALF], [WRONG])]),
    ("copies_compete", "a draft where nothing matches, a copy after a long match", EVEN,
     [Text(60, [HALF, NONE, HALF], [NOTHING, RIGHT, PART, (6, 5), WRONG])]),
    ("copies_cost_no_draft", "where a draft token costs too much, copies still pay", SLOW,
     [Text(80, [NONE], [RIGHT, PART, (5, 2)])]),
    ("copies_end", "copies are right, then wrong", EVEN, [Text(80, [NONE], [RIGHT] * 20 + [(6, 0)] * 60)]),
    ("copies_after_expansions", "copied tokens are target tokens: the ratio is not theirs", EVEN,
     [Text(60, [LONG], [NOTHING, PART, (5, 2), NOTHING, (6, 5), WRONG])]),
    ("copies_tie", "a draft and a copy of equal speed: the draft, which is the first option",
     Costs((1e8,), 1e-9, 0.0, acceptance=0.5), [Text(1, [ALL], [WRONG])]),
    ("counts_go_on", "the second text begins with the counts of the first", EVEN,
     [Text(12, [NONE]), Text(12, [NONE]), Text(60, [ALL])]),
    ("probes_over_texts", "no single text is long enough for a probe, but all together are",
     replace(EVEN, acceptance=0.05, host=0.00109), [Text(17, [ALL])] * 8),
    ("confidences", "tokens of every class: a draft ends after an unlikely one, and each class is learned",
     EVEN, [Text(40, [ALL, NONE, HALF], classes=(7, 6, 3, 4)), Text(40, [HALF, ALL], classes=(0, 5, 1, 2))]),
    ("not_worth", "unlikely tokens are not proposed, but their classes are seen: soon probes alone",
     EVEN, [Text(60, [ALL], classes=(0,)), Text(90, [ALL], classes=(6, 0))]),
    ("confident_and_wrong", "a drafter that is sure and wrong: its class is learned, and drafts soon end",
     EVEN, [Text(60, [NONE], classes=(7,)), Text(60, [ALL], classes=(2,))]),
    ("bad_after_good", "a long good text, then bad ones: older draft tokens fade", EVEN,
     [Text(120, [ALL]), Text(60, [NONE]), Text(20, [NONE], [PART])]),
    ("unread", "a drafter that has to read 64 tokens first begins later, and each text reads again", EVEN,
     [Text(12, [HALF], [RIGHT] * 4 + [NOTHING] * 8, context=(64, 0)), Text(12, [HALF], context=(64, 9))]),
    ("unread_goes_on", "a conversation goes on: what the text before left unread, and what is new", EVEN,
     [Text(9, [HALF], [RIGHT], context=(30, 0)), Text(9, [HALF], context=(70, 60))]),
    ("unread_short", "texts of one and of three tokens end before the drafter would be paid for", EVEN,
     [Text(1, [ALL], context=(64, 0)), Text(3, [ALL], context=(64, 0)), Text(9, [ALL], context=(12, 0))]),
    ("unread_probe_waits", "a probe that is due waits until the text took as long as the reading",
     replace(EVEN, acceptance=0.03), [Text(232, [NONE], context=(64, 0)), Text(12, [NONE], context=(64, 0))]),
    ("unread_probes", "what is not read makes a probe due later, in a new context", WORSE,
     [Text(400, [NONE], context=(65, 0))]),
    ("falling", "passes whose times fall: longer ones than measured take as long as the last",
     Costs((0.02, 0.015, 0.01), 0.00103, 0.0005), [Text(24, [HALF], [NOTHING, PART])]),
    ("extremes", "the largest and the smallest costs that a manifest may have", Costs((1e9, 1e-9), 1e9, 1e9),
     [Text(24, [ALL], [NOTHING, RIGHT])]),
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

ALONE = "without a drafter: copies alone, and no probes"


def write(writer: VectorWriter) -> None:
    defaults = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    lengths = defaults["draft_length"]
    writer.vectors("draft_length", "measured", [_case(lengths, *case) for case in CASES])
    alone = [
        _case(lengths, f"alone_{name}", ALONE, costs, texts, drafts=False)
        for name, _, costs, texts in CASES
        if name.startswith("copies")
    ]
    writer.vectors("draft_length", "copies_alone", alone)
    writer.vectors("draft_length", "verification", [_choice(defaults, *case) for case in CHOICES])


def _case(
    defaults: dict[str, float],
    name: str,
    why: str,
    costs: Costs,
    texts: Sequence[Text],
    *,
    drafts: bool = True,
) -> dict[str, Any]:
    length, given, expect = DraftLength(costs, defaults, drafts=drafts), [], []
    for text in texts:
        length.begin_text(*text.context)
        records, plans, planned = list[list[Any]](), list[list[Any]](), list[Plan]()
        for i in range(text.rounds):
            match, right = text.contexts[i % len(text.contexts)]
            plan = length.next(match)
            record = _record(plan, match, right, text.outcomes[i % len(text.outcomes)], text.classes)
            length.record(record)
            records.append(list(astuple(record)))
            planned.append(plan)
            plans.append(plan.row())
        given.append({"context": list(text.context), "records": _runs(records)})
        drafted = [plan for plan in planned if plan.chances][-1:]
        names = "chances", "worth", "least"
        limits = [{name: list(getattr(plan, name)) for name in names} for plan in drafted]
        expect.append({"plans": _runs(plans), "last_draft": [*limits, None][0], "state": length.state()})
    return vector(name, why, {"costs": asdict(costs), "drafts": drafts, "texts": given}, {"texts": expect})


def _record(plan: Plan, match: int, right: int, outcome: Outcome, classes: Sequence[int]) -> Record:
    if plan.source != "draft":
        emitted = 1 + (min(plan.count, right) if plan.source == "copy" else 0)
        return Record(match, [], 0, 0, emitted, min(right, emitted))
    seen = [classes[0]]
    while plan.proposes(seen) and plan.goes_on(seen):
        seen.append(classes[len(seen) % len(classes)])
    drawn = len(seen) - (not plan.proposes(seen))
    evaluated, accepted, emitted = (int(share * drawn) for share in outcome)
    return Record(match, seen, max(evaluated, min(drawn, 1)), accepted, emitted + 1, min(right, emitted + 1))


def _choice(
    defaults: dict[str, dict[str, float]], name: str, why: str, costs: Costs, vocab_size: int
) -> dict[str, Any]:
    block = defaults["block"]
    seconds = costs.of_round(int(block["usual_draft"]))
    extra = block["extra_seconds"] + block["extra_seconds_per_token"] * vocab_size
    given = {"costs": asdict(costs), "vocab_size": vocab_size}
    return vector(name, why, given, {"verification": "block" if block["gain"] * seconds > extra else "token"})


def _runs(rows: Sequence[list[Any]]) -> list[list[Any]]:
    """Each run of equal rows as one row, with the length of the run in front."""
    return [[len(list(same)), *row] for row, same in groupby(rows)]
