"""Vectors of `learner/align`, `learner/trace` and `learner/calls`: what a drafter learns from."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vectorlib.reference.alignment import Listed, Places, align, responses
from vectorlib.reference.random_source import uniforms_of
from vectorlib.reference.step_calls import calls, head_call
from vectorlib.reference.trace import Begin, Pass, Tape, Token, largest, roots, softmax
from vectorlib.reference.vocab_map import MAPS, Trie, Words
from vectorlib.writer import VectorWriter, vector

Given = dict[str, Any]


def grams(words: Words) -> list[int]:
    """Every n-gram."""
    return [t for t in words.leaves if len(words.spelling(t)) > 1]


def spread(words: Words, seed: int, cut: int | None = None) -> Listed:
    """A distribution of its own kind, whole or cut to its `cut` likeliest tokens."""
    weights = [u**3 + 0.01 for _, u in zip(words.target, uniforms_of(seed), strict=False)]
    p = {t: w / math.fsum(weights) for t, w in enumerate(weights)}
    if cut is None:
        return Listed(p)
    kept = sorted(sorted(p, key=lambda t: -p[t])[:cut])
    return Listed({t: p[t] for t in kept}, math.fsum(p[t] for t in p if t not in kept))


def response(
    words: str,
    tokens: str,
    distributions: Sequence[Listed] | None = None,
    *,
    prompt: str = "",
    cut: int | None = None,
    seed: int = 0,
    active: Sequence[int] | None = None,
    max_length: int = 64,
    keep: int = 64,
    before: int = -1,
) -> tuple[Given, Places]:
    """What a response is given as, and what it comes to."""
    found = MAPS[words]
    ids = found.t(tokens)
    distributions = (
        [spread(found, 100 * seed + i, cut) for i in range(len(ids))]
        if distributions is None
        else distributions
    )
    active = grams(found) if active is None else active
    text = found.d(prompt or found.draft[0])
    given = {"map": words, "active": list(active), "max_length": max_length, "keep": keep, "prompt": text,
             "before": before, "tokens": ids, "distributions": [distribution.as_json() for distribution in distributions]}  # fmt: skip
    places = align(
        Trie(found, active), text, ids, distributions, max_length=max_length, keep=keep, before=before
    )
    return given, places


def sure(words: str, name: str) -> Listed:
    """All mass on one token."""
    return Listed({MAPS[words].target.index(name): 1.0})


def _some(words: str, masses: dict[str, float], rest: float = 0.0) -> Listed:
    return Listed({MAPS[words].target.index(name): p for name, p in masses.items()}, rest)


def _aligned() -> list[tuple[str, str, tuple[Given, Places]]]:
    cut = _some("toy", {"FLAKE": 0.5, "S": 0.25}, 0.25)
    return [
        ("words", "direct pairs and n-grams, whole distributions", response("toy", "S FLAKE O FO", before=3)),
        ("empty", "a response of no token: one row, no place", response("toy", "")),
        ("one_token", "one token alone", response("toy", "F")),
        ("one_gram", "one n-gram alone: distributions inside it, none behind it", response("toy", "FLAKE")),
        ("orphan", "a token that nothing spells has a distribution, and the next one stands at the same row",
         response("toy", "S X F")),
        ("orphan_alone", "the end, which nothing spells, and surely: no distribution at all",
         response("toy", "X", [sure("toy", "X")])),
        ("alias", "F' is spelled as F, which stands for both: no direct token, no distribution after it",
         response("toy", "F' LA F'")),
        ("end", "the end's spelling is a control token", response("toy", "S <eos>")),
        ("goes_on", "F is said, and la or o might have gone on", response("toy", "F LA F O")),
        ("goes_on_surely", "F was said where it was impossible not to go on: the distribution is of what goes on",
         response("toy", "F S", [_some("toy", {"FLAKE": 0.75, "FO": 0.25}, 0.0), sure("toy", "S")])),
        ("goes_on_orphan", "after F what comes is nothing that the drafter can write",
         response("toy", "F X", [_some("toy", {"F": 0.5, "FLAKE": 0.5}), sure("toy", "X")])),
        ("goes_on_unlisted", "F is not listed and nothing below it: the root distribution",
         response("toy", "F S", [_some("toy", {"S": 0.75}, 0.25), spread(MAPS["toy"], 3)])),
        ("only_children_follow", "all that follows F could have gone on in its spelling",
         response("toy", "F LA", [_some("toy", {"F": 0.75, "FO": 0.25}), _some("toy", {"LA": 1.0})])),
        ("rest", "rows cut to 4 tokens", response("toy", "S FLAKE O FO LA", cut=4)),
        ("rest_unlisted", "what is said is not among the listed: its probability is unknown",
         response("toy", "O FO S", [cut, cut, cut])),
        ("impossible", "what is said has none: 0, not unknown",
         response("toy", "O S", [_some("toy", {"FLAKE": 0.5, "S": 0.5})] * 2)),
        ("rest_alone", "a row that lists nothing", response("toy", "S F", [Listed({}, 1.0)] * 2)),
        ("inactive", "n-grams that are not learned have no distributions, and their mass is in none",
         response("toy", "S FLAKE FO", active=[])),
        ("some_active", "LAKE is active and FLAKE is not",
         response("toy", "LAKE FLAKE LA KE", active=MAPS["toy"].t("LAKE"))),
        ("nested", "A, AB, ABC and ABCD: every node is a token and has a child",
         response("deep", "A AB ABC ABCD A B E DE CCC")),
        ("keep_2", "a distribution lists two ids, the others are OTHER", response("deep", "ABC A E", keep=2)),
        ("keep_1_cut", "one id, of a cut row", response("toy", "FLAKE F S", keep=1, cut=6)),
        ("full", "the response ends where the context does",
         response("toy", "S FLAKE O", prompt="s s s", max_length=7)),
        ("full_amid", "an n-gram that does not fit is left out, and all behind it",
         response("toy", "S FLAKE O", prompt="s s s", max_length=6)),
        ("full_orphan", "what takes no room fits", response("toy", "S X O", prompt="s s", max_length=3)),
        ("prompt_too_long", "nothing fits behind the prompt",
         response("toy", "S O", prompt="s f la ke", max_length=3)),
        ("half_characters", "e3 81 is a token, and the beginning of another's spelling",
         response("halves", "あ e381 82 い e381 84 a")),
        ("half_at_the_end", "the response ends in half a character", response("halves", "a e381")),
        ("half_one_byte", "a byte that is no character", response("halves", "82 84", cut=5)),
        ("long_draft_token", "ab! writes two target tokens, the second of which nothing spells",
         response("halves", "ab ! a ab !")),
        ("worked", "the words of speculation.md", response("worked", "FLAKE F X LA KE O FLAKE")),
        ("snow", "the worked example of the paper", response("snow", "Snow flake is s flake f")),
    ]  # fmt: skip


def write(writer: VectorWriter) -> None:
    found = [vector(name, why, given, places.as_json()) for name, why, (given, places) in _aligned()]
    writer.vectors("learner/align", "responses", found)
    _write_traces(writer)
    found = []
    for name, why, objective, at_once, made in _batches():
        given = {"responses": [each for each, _ in made], "objective": objective, "at_once": at_once}
        places = [each for _, each in made]
        expect = {**calls(places, objective, at_once), "head": head_call(places)}
        found.append(vector(name, why, given, expect))
    writer.vectors("learner/calls", "batches", found)


def _batches() -> list[tuple[str, str, str, int, list[tuple[Given, Places]]]]:
    mixed = [
        response("toy", "S FLAKE O FO", seed=1),
        response("toy", "F X LA", seed=2, prompt="s f o"),
        response("toy", "FLAKE", seed=3, cut=3),
        response("toy", "F' O S FO", seed=4, cut=5),
    ]
    nothing = response("toy", "X", [sure("toy", "X")])
    halves = [response("halves", "あ e381 82 い ab ! a", seed=5), response("halves", "e381", seed=6)]
    found = []
    for objective in ("trie-kl", "omnidraft"):
        short = objective[:4]
        found += [
            (f"mixed_{short}", "responses of other lengths in one call", objective, 4, mixed),
            (f"in_parts_{short}", "two calls: counts are of the whole step", objective, 3, mixed),
            (f"one_{short}", "one response of one token", objective, 8, [response("toy", "S", seed=7)]),
            (f"halves_{short}", "half characters, and a longer draft token", objective, 2, halves),
            (f"nothing_{short}", "no place at all: tables are 1 wide", objective, 1, [nothing]),
            (f"empty_{short}", "an empty response beside one of two tokens", objective, 2,
             [response("toy", ""), response("toy", "F O", seed=8)]),
        ]  # fmt: skip
    expanded = response("toy", "S F O S F O S", seed=9)
    found.append(("longer", "sfo writes S F O, where all three are said", "trie-kl", 1, [expanded]))
    found.append(("inactive", "no n-gram is active: no draft is right there", "trie-kl", 1,
                  [response("toy", "S FLAKE FO O", seed=10, active=[])]))  # fmt: skip
    return found


def _token(words: Words, seed: int, name: str, *, cut: int = 64, **more: Any) -> Token:
    """A recorded token: the distribution before it, its roots, and the draft ids that write it."""
    logits = [6.0 * u for _, u in zip(words.target, uniforms_of(seed), strict=False)]
    p, t = softmax(logits), words.target.index(name)
    masses, unspelled = roots(words, p)
    pieces = more.pop("pieces", list(words.spelling(t)))
    kept = largest(dict(enumerate(p)), cut), largest(masses, cut)
    return Token(t, -math.log(p[t]), *kept, unspelled, pieces, **more)


def _passes(words: Words, names: str, seed: int, start: int, **more: Any) -> list[Pass]:
    """A round for each token."""
    found, at = [], start
    for i, name in enumerate(names.split()):
        token = _token(words, seed + i, name, **more)
        found.append(Pass(at, [token]))
        at += len(token.pieces)
    return found


def _tape(words: str, *records: tuple[Begin, list[Pass]], number: int = 1) -> Tape:
    sizes = len(MAPS[words].draft), len(MAPS[words].target)
    entries: list[tuple[int, Begin | Pass]] = []
    for n, (begun, passes) in enumerate(records):
        entries += [(n, begun), *((n, each) for each in passes)]
    return Tape(entries, sizes, number)


def _taped() -> list[tuple[str, str, str, list[Tape], dict[str, Any]]]:
    toy, halves = MAPS["toy"], MAPS["halves"]
    begun, passes = Begin([0, 1]), _passes(toy, "S FLAKE X FO", 20, 2)
    whole = _tape("toy", (begun, passes))
    cut = _tape("toy", (begun, _passes(toy, "O LAKE F' S", 30, 2, cut=3)))
    text = [0, 1, *(d for p in passes[:2] for t in p.tokens for d in t.pieces)]
    later = Begin(text, continues=1)
    windowed = Begin(text[2:], continues=1, skipped=0)
    inside = [
        _token(toy, 40, "S", pieces=[6], accepted=True),
        _token(toy, 41, "F", pieces=[], accepted=True, inside=True),
        _token(toy, 42, "O", pieces=[], accepted=True, inside=True),
        _token(toy, 43, "FLAKE"),
    ]
    certain = Token(2, 0.0, ([2], [1.0], 0.0), ([2], [1.0], 0.0), 0.0, [2])
    orphan = Token(8, 0.0, ([8], [1.0], 0.0), ([], [], 0.0), 1.0, [])
    return [
        ("whole", "a generation of four tokens, one of them an orphan", "toy", [whole], {}),
        ("cut", "distributions of three ids: what is said is unlisted, roots are of the whole distribution", "toy", [cut], {}),
        ("inactive", "not all n-grams are active: roots are worked out", "toy", [cut], {"active": []}),
        ("inside", "a longer draft token: its tokens are spelled one by one", "toy",
         [_tape("toy", (begun, [Pass(2, inside, [6], 1, 1, [(5, 0, 0.5)])]))], {}),
        ("goes_on", "a record that goes on with another is the same generation", "toy",
         [_tape("toy", (begun, passes[:2]), (later, passes[2:]))], {}),
        ("goes_on_elsewhere", "in another segment, after the record of another session", "toy",
         [_tape("toy", (begun, passes[:2]), (Begin([4]), _passes(toy, "S O", 50, 1))),
          _tape("toy", (later, passes[2:]), number=2)], {}),
        ("not_the_text", "as long, and another text: a generation of its own", "toy",
         [_tape("toy", (begun, passes[:2]), (replace(later, context=[4, *text[1:]]), passes[2:]))], {}),
        ("not_so_far", "it says that it goes on, elsewhere", "toy",
         [_tape("toy", (begun, passes[:2]), (windowed, _passes(toy, "S", 60, len(text) - 2)))], {}),
        ("not_continued", "the same text, and a generation of its own", "toy",
         [_tape("toy", (begun, passes[:2]), (replace(later, continues=0), passes[2:]))], {}),
        ("bos", "every context begins with the drafter's own token", "toy", [whole], {"start": [7]}),
        ("bos_alone", "no text before the first token", "toy",
         [_tape("toy", (Begin([]), _passes(toy, "S O", 70, 0)))], {"start": [7]}),
        ("no_prompt", "no text and no bos: nothing stands before the first token", "toy",
         [_tape("toy", (Begin([]), _passes(toy, "S O", 70, 0)))], {}),
        ("prompt_cut", "the prompt gives way to the response, from the left", "toy",
         [_tape("toy", (Begin([0, 1, 2, 3, 4, 0, 1]), _passes(toy, "S FLAKE X FO", 20, 7)))],
         {"max_length": 10, "start": [7]}),
        ("prompt_half", "and keeps half of the room: the response ends early", "toy",
         [_tape("toy", (Begin([0, 1, 2, 3, 4, 0, 1, 2]), _passes(toy, "FLAKE S FLAKE O", 80, 8)))],
         {"max_length": 9, "start": [7]}),
        ("no_room", "not even the first token fits", "toy",
         [_tape("toy", (Begin([0, 1, 2]), _passes(toy, "FLAKE S", 90, 3)))], {"max_length": 4}),
        ("sure", "the target was sure: nothing is left for others", "toy",
         [_tape("toy", (begun, [Pass(2, [certain])]))], {}),
        ("sure_orphan", "the end at once, surely, and nothing spells it: no distribution", "toy",
         [_tape("toy", (begun, [Pass(2, [orphan])]))], {}),
        ("halves", "half characters", "halves",
         [_tape("halves", (Begin([5, 0]), _passes(halves, "e381 82 あ い e381", 95, 2)))], {}),
    ]  # fmt: skip


def _write_traces(writer: VectorWriter) -> None:
    found = []
    for name, why, words, tapes, settings in _taped():
        files = [f"{name}-{tape.number}.bin" for tape in tapes]
        for file, tape in zip(files, tapes, strict=True):
            writer.file(f"learner/trace/{file}", tape.pack())
        given: Given = {"map": words, "files": files, "active": grams(MAPS[words]), "start": [],
                        "max_length": 64, **settings}  # fmt: skip
        options = {key: given[key] for key in ("start", "max_length")}
        made = responses(MAPS[words], tapes, given["active"], **options)
        found.append(vector(name, why, given, {"responses": [each.as_json() for each in made]}))
    writer.vectors("learner/trace", "traces", found)
