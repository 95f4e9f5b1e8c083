"""Vectors of `learner/align`, `learner/trace` and `learner/calls`: training positions, inputs of a step."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vectorlib.reference.learning.alignment import Aligned, TargetRow, align, responses
from vectorlib.reference.learning.step_calls import calls
from vectorlib.reference.learning.trace import RecordStart, Round, Segment, Token, largest, roots, softmax
from vectorlib.reference.random_source import uniforms_of
from vectorlib.reference.vocab_map import MAPS, Trie, VocabMap
from vectorlib.writer import VectorWriter, vector

Given = dict[str, Any]


def grams(vocab_map: VocabMap) -> list[int]:
    """Every n-gram."""
    return [t for t in vocab_map.leaves if len(vocab_map.spelling(t)) > 1]


def spread(vocab_map: VocabMap, seed: int, cut: int | None = None) -> TargetRow:
    """A distribution that depends on the seed, whole or cut to its `cut` likeliest tokens."""
    weights = [u**3 + 0.01 for _, u in zip(vocab_map.target, uniforms_of(seed), strict=False)]
    p = {t: w / math.fsum(weights) for t, w in enumerate(weights)}
    if cut is None:
        return TargetRow(p)
    kept = sorted(sorted(p, key=lambda t: -p[t])[:cut])
    return TargetRow({t: p[t] for t in kept}, math.fsum(p[t] for t in p if t not in kept))


def response(
    map_name: str,
    tokens: str,
    target_rows: Sequence[TargetRow] | None = None,
    *,
    prompt: str = "",
    cut: int | None = None,
    seed: int = 0,
    **settings: Any,
) -> tuple[Given, Aligned]:
    """The input of a response, and the response as training positions.

    Args:
        target_rows: the target's distributions; by default a row of `spread` for each token.
        cut: how many tokens a row of `spread` lists.
        settings: `active` n-grams (by default all), `max_length`, `keep`.
    """
    vocab_map = MAPS[map_name]
    ids = vocab_map.t(tokens)
    rows = target_rows
    if rows is None:
        rows = [spread(vocab_map, 100 * seed + i, cut) for i in range(len(ids))]
    settings = {"max_length": 64, "keep": 64, **settings}
    active = list(settings.pop("active", grams(vocab_map)))
    text = vocab_map.d(prompt or vocab_map.draft[0])
    given = {
        "map": map_name, "active": active, "max_length": settings["max_length"], "keep": settings["keep"],
        "prompt": text, "tokens": ids,
        "distributions": [row.as_json() for row in rows],
    }  # fmt: skip
    return given, align(Trie(vocab_map, active), text, ids, rows, **settings)


def certain(map_name: str, name: str) -> TargetRow:
    """All mass on one token."""
    return TargetRow({MAPS[map_name].target.index(name): 1.0})


def _some(map_name: str, masses: dict[str, float], rest: float = 0.0) -> TargetRow:
    return TargetRow({MAPS[map_name].target.index(name): p for name, p in masses.items()}, rest)


def _aligned() -> list[tuple[str, str, tuple[Given, Aligned]]]:
    cut = _some("toy", {"FLAKE": 0.5, "S": 0.25}, 0.25)
    return [
        ("tokens", "direct pairs and n-grams, whole distributions", response("toy", "S FLAKE O FO")),
        ("empty", "an empty response: one row, no place", response("toy", "")),
        ("one_token", "one token alone", response("toy", "F")),
        ("one_gram", "one n-gram alone: distributions inside it, none after it", response("toy", "FLAKE")),
        ("orphan", "an unspelled token has a distribution; the next token is at the same row",
         response("toy", "S X F")),
        ("orphan_alone", "an unspelled token with all the mass: no distribution",
         response("toy", "X", [certain("toy", "X")])),
        ("alias", "F' has the spelling of F, which stands for both: not direct, no distribution after it",
         response("toy", "F' LA F'")),
        ("end", "the spelling of <eos> is a control token", response("toy", "S <eos>")),
        ("goes_on", "after F, la or o might have followed in its spelling", response("toy", "F LA F O")),
        ("goes_on_surely", "F where its end is impossible: the distribution is of the children",
         response("toy", "F S", [_some("toy", {"FLAKE": 0.75, "FO": 0.25}, 0.0), certain("toy", "S")])),
        ("goes_on_orphan", "after F comes a token that the drafter cannot write",
         response("toy", "F X", [_some("toy", {"F": 0.5, "FLAKE": 0.5}), certain("toy", "X")])),
        ("goes_on_unlisted", "neither F nor a token below it is listed: the root distribution",
         response("toy", "F S", [_some("toy", {"S": 0.75}, 0.25), spread(MAPS["toy"], 3)])),
        ("only_children_follow", "every token after F is also a child of F",
         response("toy", "F LA", [_some("toy", {"F": 0.75, "FO": 0.25}), _some("toy", {"LA": 1.0})])),
        ("rest", "rows cut to 4 tokens", response("toy", "S FLAKE O FO LA", cut=4)),
        ("rest_unlisted", "the token is not listed: its probability is unknown",
         response("toy", "O FO S", [cut, cut, cut])),
        ("impossible", "the token has probability 0, which is not unknown",
         response("toy", "O S", [_some("toy", {"FLAKE": 0.5, "S": 0.5})] * 2)),
        ("rest_alone", "a row that lists nothing", response("toy", "S F", [TargetRow({}, 1.0)] * 2)),
        ("inactive", "inactive n-grams have no distributions, and their mass is in none",
         response("toy", "S FLAKE FO", active=[])),
        ("some_active", "LAKE is active and FLAKE is not",
         response("toy", "LAKE FLAKE LA KE", active=MAPS["toy"].t("LAKE"))),
        ("nested", "A, AB, ABC and ABCD: every node is a token",
         response("deep", "A AB ABC ABCD A B E DE CCC")),
        ("keep_2", "a distribution lists two ids, the others are OTHER", response("deep", "ABC A E", keep=2)),
        ("keep_1_cut", "one id, of a cut row", response("toy", "FLAKE F S", keep=1, cut=6)),
        ("full", "the response ends at the end of the context",
         response("toy", "S FLAKE O", prompt="s s s", max_length=7)),
        ("full_amid", "an n-gram that does not fit is left out, with all tokens after it",
         response("toy", "S FLAKE O", prompt="s s s", max_length=6)),
        ("full_orphan", "a token without draft tokens needs no room",
         response("toy", "S X O", prompt="s s", max_length=3)),
        ("prompt_too_long", "nothing fits after the prompt",
         response("toy", "S O", prompt="s f la ke", max_length=3)),
        ("half_characters", "e3 81 is a token, and the prefix of another spelling",
         response("halves", "あ e381 82 い e381 84 a")),
        ("half_at_the_end", "the response ends with half a character", response("halves", "a e381")),
        ("half_one_byte", "a byte that is not a character", response("halves", "82 84", cut=5)),
        ("long_draft_token", "ab! writes two target tokens; the second is unspelled",
         response("halves", "ab ! a ab !")),
        ("worked", "the vocabulary of 04-speculation.md", response("worked", "FLAKE F X LA KE O FLAKE")),
        ("snow", "the worked example of the paper", response("snow", "Snow flake is s flake f")),
    ]  # fmt: skip


def write(writer: VectorWriter) -> None:
    vectors = [vector(name, why, given, made.as_json()) for name, why, (given, made) in _aligned()]
    writer.vectors("learner/align", "responses", vectors)
    _write_traces(writer)
    vectors = []
    for name, why, at_once, made in _batches():
        given = {"responses": [each for each, _ in made], "at_once": at_once}
        vectors.append(vector(name, why, given, calls([each for _, each in made], at_once)))
    writer.vectors("learner/calls", "batches", vectors)


def _batches() -> list[tuple[str, str, int, list[tuple[Given, Aligned]]]]:
    mixed = [
        response("toy", "S FLAKE O FO", seed=1),
        response("toy", "F X LA", seed=2, prompt="s f o"),
        response("toy", "FLAKE", seed=3, cut=3),
        response("toy", "F' O S FO", seed=4, cut=5),
    ]
    nothing = response("toy", "X", [certain("toy", "X")])
    halves = [response("halves", "あ e381 82 い ab ! a", seed=5), response("halves", "e381", seed=6)]
    return [
        ("mixed", "responses of different lengths in one call", 4, mixed),
        ("in_parts", "two calls: the scale is of the whole step", 3, mixed),
        ("one", "one response of one token", 8, [response("toy", "S", seed=7)]),
        ("halves", "half characters, and a longer draft token", 2, halves),
        ("nothing", "no place: tables are 1 wide", 1, [nothing]),
        ("empty", "an empty response beside one of two tokens", 2,
         [response("toy", ""), response("toy", "F O", seed=8)]),
        ("inactive", "no n-gram is active", 1, [response("toy", "S FLAKE FO O", seed=10, active=[])]),
    ]  # fmt: skip


def _token(vocab_map: VocabMap, seed: int, name: str, *, cut: int = 64, **more: Any) -> Token:
    """A recorded token, with the distribution before it and its roots."""
    logits = [6.0 * u for _, u in zip(vocab_map.target, uniforms_of(seed), strict=False)]
    p, t = softmax(logits), vocab_map.target.index(name)
    masses, unspelled = roots(vocab_map, p)
    listed = largest(dict(enumerate(p)), cut), largest(masses, cut)
    return Token(t, -math.log(p[t]), *listed, unspelled, **more)


def _rounds(vocab_map: VocabMap, names: str, seed: int, **more: Any) -> list[Round]:
    """One round for each token."""
    return [Round([_token(vocab_map, seed + i, name, **more)]) for i, name in enumerate(names.split())]


def _segment(map_name: str, *records: tuple[RecordStart, list[Round]], number: int = 1) -> Segment:
    sizes = len(MAPS[map_name].draft), len(MAPS[map_name].target)
    entries: list[tuple[int, RecordStart | Round]] = []
    for n, (start, rounds) in enumerate(records):
        entries += [(n, start), *((n, each) for each in rounds)]
    return Segment(entries, sizes, number)


def _traces() -> list[tuple[str, str, str, list[Segment], dict[str, Any]]]:
    toy, halves = MAPS["toy"], MAPS["halves"]
    start, rounds = RecordStart([0, 1]), _rounds(toy, "S FLAKE X FO", 20)
    whole = _segment("toy", (start, rounds))
    cut = _segment("toy", (start, _rounds(toy, "O LAKE F' S", 30, cut=3)))
    text = [0, 1, *(d for p in rounds[:2] for t in p.tokens for d in toy.spelling(t.id))]
    later = RecordStart(text, continues=1)
    windowed = RecordStart(text[2:], continues=1, skipped=0)
    several = [_token(toy, 40 + i, name, accepted=i < 3) for i, name in enumerate(["S", "F", "O", "FLAKE"])]
    certain = Token(2, 0.0, ([2], [1.0], 0.0), ([2], [1.0], 0.0))
    orphan = Token(8, 0.0, ([8], [1.0], 0.0), ([], [], 0.0), 1.0)
    return [
        ("whole", "a generation of four tokens, one of them an orphan", "toy", [whole], {}),
        ("cut", "rows of three ids: the token is unlisted, the roots are of the whole row",
         "toy", [cut], {}),
        ("inactive", "not all n-grams are active: roots are computed", "toy", [cut], {"active": []}),
        ("several", "a round of several tokens", "toy", [_segment("toy", (start, [Round(several)]))], {}),
        ("goes_on", "a record that continues another one is the same generation", "toy",
         [_segment("toy", (start, rounds[:2]), (later, rounds[2:]))], {}),
        ("goes_on_elsewhere", "in another segment, after the record of another session", "toy",
         [_segment("toy", (start, rounds[:2]), (RecordStart([4]), _rounds(toy, "S O", 50))),
          _segment("toy", (later, rounds[2:]), number=2)], {}),
        ("not_the_text", "a text of the same length, but another text: a new generation", "toy",
         [_segment("toy", (start, rounds[:2]), (replace(later, context=[4, *text[1:]]), rounds[2:]))], {}),
        ("not_there", "a record that continues at another position: a new generation", "toy",
         [_segment("toy", (start, rounds[:2]), (windowed, _rounds(toy, "S", 60)))], {}),
        ("not_continued", "the same text without `continues`: a new generation", "toy",
         [_segment("toy", (start, rounds[:2]), (replace(later, continues=0), rounds[2:]))], {}),
        ("bos", "every context begins with the drafter's bos", "toy", [whole], {"start": [7]}),
        ("bos_alone", "no text before the first token", "toy",
         [_segment("toy", (RecordStart([]), _rounds(toy, "S O", 70)))], {"start": [7]}),
        ("no_prompt", "no text and no bos: there is no row before the first token", "toy",
         [_segment("toy", (RecordStart([]), _rounds(toy, "S O", 70)))], {}),
        ("prompt_cut", "the prompt is cut from the left, to make room for the response", "toy",
         [_segment("toy", (RecordStart([0, 1, 2, 3, 4, 0, 1]), _rounds(toy, "S FLAKE X FO", 20)))],
         {"max_length": 10, "start": [7]}),
        ("prompt_half", "the prompt keeps half of the room: the response ends early", "toy",
         [_segment("toy", (RecordStart([0, 1, 2, 3, 4, 0, 1, 2]), _rounds(toy, "FLAKE S FLAKE O", 80)))],
         {"max_length": 9, "start": [7]}),
        ("no_room", "not even the first token fits", "toy",
         [_segment("toy", (RecordStart([0, 1, 2]), _rounds(toy, "FLAKE S", 90)))], {"max_length": 4}),
        ("sure", "the target is certain: no mass is left for others", "toy",
         [_segment("toy", (start, [Round([certain])]))], {}),
        ("sure_orphan", "one unspelled token with all the mass: no distribution", "toy",
         [_segment("toy", (start, [Round([orphan])]))], {}),
        ("halves", "half characters", "halves",
         [_segment("halves", (RecordStart([5, 0]), _rounds(halves, "e381 82 あ い e381", 95)))], {}),
    ]  # fmt: skip


def _write_traces(writer: VectorWriter) -> None:
    vectors = []
    for name, why, map_name, segments, settings in _traces():
        files = [f"{name}-{segment.number}.bin" for segment in segments]
        for file, segment in zip(files, segments, strict=True):
            writer.file(f"learner/trace/{file}", segment.pack())
        given: Given = {"map": map_name, "files": files, "active": grams(MAPS[map_name]), "start": [],
                        "max_length": 64, **settings}  # fmt: skip
        options = {key: given[key] for key in ("start", "max_length")}
        made = responses(MAPS[map_name], segments, given["active"], **options)
        vectors.append(vector(name, why, given, {"responses": [each.as_json() for each in made]}))
    writer.vectors("learner/trace", "traces", vectors)
