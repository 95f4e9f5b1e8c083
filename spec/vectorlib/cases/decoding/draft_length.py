"""Vectors of `draft_length`: measured costs and what became of each round -> the lengths."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from vectorlib.reference.draft_length import Costs, Lengths
from vectorlib.writer import VectorWriter, vector

DEFAULTS = Path(__file__).resolve().parents[3] / "defaults.json"

CHEAP = Costs((0.1, 0.101, 0.102, 0.103), 0.002, 0.0005)  # a draft token costs 2 % of a target pass
EVEN = Costs((0.02, 0.021, 0.0225, 0.024, 0.026), 0.004, 0.001)
DEAR = Costs((0.004, 0.006, 0.008317), 0.005, 0.001)  # a draft token costs more than a target token
FLAT = Costs((0.05,), 0.001, 0.0)  # one measured pass: longer ones are taken to cost the same

# Outcomes, (judged, accepted, emitted) as shares of what was drafted; cycled over the rounds.
ALL, NONE, HALF, MERGED = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 0.5, 0.5), (1.0, 1.0, 0.5)
LONG = (1.0, 0.5, 2.0)
CASES: list[tuple[Any, ...]] = [
    ("first", "before any round: the prior alone", EVEN, 1, [ALL]),
    ("always_right", "everything is accepted: the longest", EVEN, 24, [ALL]),
    ("always_wrong", "the first token is refused each time: soon 0, then probes", EVEN, 60, [NONE]),
    ("half", "half of each draft stands", EVEN, 24, [HALF]),
    ("merged", "two draft tokens make one target token: drafting pays less", EVEN, 24, [MERGED]),
    ("expanded", "a draft token makes several target tokens: the ratio stops at 1.5", EVEN, 24, [LONG]),
    ("changing", "good and bad rounds take turns", EVEN, 24, [ALL, NONE, HALF]),
    ("cheap_wrong", "a cheap drafter survives many refusals", CHEAP, 40, [NONE]),
    ("cheap_right", "nearly free drafting", CHEAP, 12, [ALL]),
    ("dear", "drafting never pays: only probes, each after about twice the wait", DEAR, 700, [NONE]),
    ("dear_for_long", "a probe's share stops shrinking, the wait ends at 1,024", DEAR, 5000, [NONE]),
    ("dear_but_right", "probes that go well bring it back or not", DEAR, 400, [ALL]),
    ("measured_hopeless", "the export measured that nothing is accepted: plain from the start",
     replace(EVEN, acceptance=0.03), 60, [NONE]),
    ("measured_good", "the export measured nine in ten", replace(EVEN, acceptance=0.9), 24, [HALF]),
    ("measured_wrong", "measured as hopeless, and all is accepted: a probe finds out",
     replace(EVEN, acceptance=0.05), 90, [ALL]),
    ("long_prompt", "1,500 tokens to read first: it would not pay", replace(EVEN, read=0.0004), 300,
     [ALL], 1500),
    ("prompt", "100 tokens to read first: it pays, with fewer draft tokens", replace(EVEN, read=0.0004), 24,
     [HALF], 100),
    ("middling_prompt", "1,000 tokens to read first: 64 tokens would not earn it back",
     replace(EVEN, read=0.0004), 24, [ALL], 1000),
    ("unread_grows", "what is said without the drafter is to be read too", replace(DEAR, read=0.0002), 1100,
     [NONE], 40),
    ("one_measured_pass", "no slope to go on with", FLAT, 12, [HALF]),
    ("comes_back", "bad rounds, then a probe that goes well", EVEN, 90, [NONE] * 12 + [ALL] * 78),
]  # fmt: skip
# Texts of one session: (to read, limit, rounds, outcomes) of each.
READER = replace(EVEN, read=0.000103, host=0.00101)
TEXTS: list[tuple[Any, ...]] = [
    ("counts_go_on", "the second text begins with what the first taught", EVEN,
     [(0, None, 12, [NONE]), (0, None, 12, [NONE]), (0, None, 60, [ALL])]),
    ("probes_over_texts", "no text is long enough for a probe, but all together are",
     replace(EVEN, acceptance=0.05, host=0.00107), [(0, None, 7, [ALL])] * 8),
    ("short_texts", "300 tokens to read for 3 to 6: after some texts it is not worth it",
     READER, [(300, None, 2, [HALF])] * 8),
    ("short_then_long", "one long text, and reading is worth it again",
     READER, [(300, None, 2, [HALF])] * 5 + [(300, None, 150, [HALF]), (300, None, 3, [HALF])]),
    ("nothing_said", "a text that ended before its first round tells nothing of how long texts are",
     READER, [(300, None, 2, [HALF])] + [(300, None, 0, [])] * 6 + [(300, None, 2, [HALF])]),
    ("limits", "no more than 12 tokens may come: reading is not worth it; than 200: it is",
     READER, [(600, 12, 4, [HALF]), (600, 200, 4, [HALF]), (600, 12, 11, [HALF]), (0, 12, 4, [HALF])]),
]  # fmt: skip
# Which verification "auto" takes, by the costs of a round and the target's vocabulary.
CHOICES: list[tuple[str, str, Costs, int]] = [
    ("auto_short_round", "block verification would cost more than it gains", DEAR, 32_000),
    ("auto_long_round", "a pass of 0.1 s: it pays", CHEAP, 151_936),
    ("auto_starter", "a round of 2 ms", Costs((0.0006, 0.0007, 0.0008, 0.0009, 0.001), 0.0002, 0.0002), 4096),
    ("auto_small_vocabulary", "a round of 40 ms and 160,000 tokens", Costs((0.04,), 0.0, 0.0), 160_000),
    ("auto_large_vocabulary", "a round of 40 ms and 170,000 tokens: every row costs", Costs((0.04,), 0.0,
     0.0), 170_000),
    ("auto_five_tokens", "the pass over 5 tokens decides, not the one over 1", Costs((0.001, 0.1), 0.0, 0.0),
     4096),
]  # fmt: skip

# Rounds with a head: what it says after each token, cycled over rounds; the threshold, None for auto; and of
# several texts what is to be read.
SURE, DOUBT, MIXED, DROP = (0.99,) * 11, (0.3,) * 11, (0.95, 0.9, 0.4, 0.9, 0.2), (0.98, 0.97, 0.02)
HEADED: list[tuple[Any, ...]] = [
    ("sure", "drafts grow to the longest", EVEN, 12, [ALL], [SURE], None),
    ("doubting", "drafts end at once, and then nothing pays", EVEN, 60, [NONE], [DOUBT], None),
    ("mixed", "each round as its head says", EVEN, 24, [ALL, HALF], [MIXED, DROP, SURE], None),
    ("nearly_free", "a token whose distribution is at hand takes no pass", CHEAP, 12, [HALF], [DROP], None),
    ("dear_headed", "a drafter that costs more than the target", DEAR, 400, [NONE], [MIXED], None),
    ("merged_headed", "two draft tokens make one target token", EVEN, 24, [MERGED], [SURE, MIXED], None),
    ("threshold_low", "0.3: after the first doubt", EVEN, 12, [HALF], [MIXED, DROP], 0.3),
    ("threshold_high", "0.7: later", EVEN, 12, [HALF], [MIXED, DROP], 0.7),
    ("taken_away", "rounds with a head, then without", EVEN, 30, [HALF], [SURE] * 12 + [()] * 18, None),
    ("read_headed", "texts of 8 rounds; what a head's rounds earn pays for reading 100 tokens, not 9,000",
     READER, 32, [ALL], [SURE], None, (0, 100, 9000, 0)),
]  # fmt: skip
TEXT_ROUNDS = 8  # of each text of a headed vector with several


def write(writer: VectorWriter) -> None:
    defaults = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    writer.vectors("draft_length", "measured", [_case(defaults["draft_length"], *case) for case in CASES])
    writer.vectors("draft_length", "texts", [_texts(defaults["draft_length"], *case) for case in TEXTS])
    writer.vectors("draft_length", "headed", [_headed(defaults["draft_length"], *case) for case in HEADED])
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
    lengths, records = _run(Lengths(costs, defaults, unread), rounds, outcomes)
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
    length, given, expect = Lengths(costs, defaults, 0), [], []
    for unread, limit, rounds, outcomes in texts:
        length.another_text(unread, limit)
        lengths, records = _run(length, rounds, outcomes)
        given.append({"unread": unread, "limit": limit, "records": records})
        expect.append({"lengths": lengths})
    return vector(name, why, {"costs": asdict(costs), "texts": given}, {"texts": expect})


def _run(
    length: Lengths, rounds: int, outcomes: Sequence[tuple[float, float, float]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Lengths that are chosen, and what becomes of each round."""
    lengths: list[list[int]] = []
    records: list[list[int]] = []
    for i in range(rounds):
        drafted = length.next()
        judged, passed, emitted = (int(share * drafted) for share in outcomes[i % len(outcomes)])
        record = (drafted, max(judged, min(1, drafted)), passed, emitted + 1)
        length.record(*record)
        lengths.append([drafted])
        records.append(list(record))
    return _runs(lengths), _runs(records)


def _headed(
    defaults: dict[str, float],
    name: str,
    why: str,
    costs: Costs,
    rounds: int,
    outcomes: Sequence[tuple[float, float, float]],
    says: Sequence[Sequence[float]],
    threshold: float | None,
    texts: Sequence[int] = (),
) -> dict[str, Any]:
    length, given, expect = Lengths(costs, defaults, 0), [], []
    for i in range(rounds):
        begun: dict[str, Any] = {}
        if texts and not i % TEXT_ROUNDS:
            begun = {"unread": texts[i // TEXT_ROUNDS]}
            length.another_text(begun["unread"])
        asked = count = length.next()
        drawn, stands, answers = 0, 1.0, list[list[float]]()
        heard = iter(says[i % len(says)])
        while drawn < count:
            if drawn and (chance := next(heard, None)) is not None:
                stands *= chance
                more = length.more(drawn, stands, threshold)
                answers.append([drawn, stands, more])
                count = min(asked, drawn + more)
                if drawn >= count:
                    break
            drawn += 1
        judged, passed, emitted = (int(share * drawn) for share in outcomes[i % len(outcomes)])
        record = [drawn, max(judged, min(1, drawn)), passed, emitted + 1]
        length.record(*record)
        given.append({**begun, "asks": [answer[:2] for answer in answers], "record": record})
        expect.append({"length": asked, "more": [answer[2] for answer in answers]})
    return vector(
        name,
        why,
        {"costs": asdict(costs), "threshold": threshold, "rounds": given},
        {"rounds": expect},
    )


def _choice(
    defaults: dict[str, dict[str, float]], name: str, why: str, costs: Costs, vocab_size: int
) -> dict[str, Any]:
    block = defaults["block"]
    seconds = costs.of_round(int(block["usual_draft"]))
    extra = block["extra_seconds"] + block["extra_seconds_per_token"] * vocab_size
    given = {"costs": asdict(costs), "vocab_size": vocab_size}
    return vector(name, why, given, {"verification": "block" if block["gain"] * seconds > extra else "token"})


def _runs(rows: Sequence[list[int]]) -> list[list[int]]:
    """Equal rows that follow one another as one, with their number before it."""
    return [[len(list(same)), *row] for row, same in groupby(rows)]
