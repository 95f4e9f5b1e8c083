"""Vectors of `verify`: one scene, the uniforms that lead to each of its outcomes, and the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vectorlib.cases.decoding.scenes import SCENES, Scene
from vectorlib.reference.random_source import Chance, Distribution, TooClose, uniforms_of
from vectorlib.reference.translator import Proposal, longest_match, walk
from vectorlib.reference.verifier import JUDGES, Verdict, draft_after, paper_distribution
from vectorlib.reference.vocab_map import MAPS, Trie
from vectorlib.writer import VectorWriter, vector

TRIES = 400  # seeds that are searched for outcomes
MOST = 8


@dataclass(frozen=True)
class Table:
    """A scene with its names resolved."""

    scene: Scene
    rule: str
    trie: Trie
    draft: list[int]
    q: list[Distribution]
    p: list[Distribution]
    proposal: Proposal


def write(writer: VectorWriter) -> None:
    for rule in JUDGES:
        found = [v for scene in SCENES if rule in scene.rules for v in _outcomes(_table(scene, rule))]
        writer.vectors("verify", rule, found)
    writer.vectors("verify", "paper_distribution", list(_paper_distributions()))


def _table(scene: Scene, rule: str) -> Table:
    words = MAPS[scene.map]
    trie, draft = Trie(words, words.t(scene.active)), words.d(scene.draft)
    expand = rule != "paper"
    turn = walk if rule in ("token", "block") else longest_match
    q = [_distribution(words.draft, row) for row in scene.q]
    p = [_distribution(words.target, row) for row in scene.p]
    return Table(scene, rule, trie, draft, q, p, turn(draft, trie, MOST, expand))


def _distribution(names: Sequence[str], row: str) -> Distribution:
    """A row such as "f 0.5 la 0.25": what is not named has nothing."""
    parts = row.split()
    given = dict(zip(parts[::2], map(float, parts[1::2]), strict=True))
    assert set(given) <= set(names), row
    return Distribution(tuple(given.get(name, 0.0) for name in names))


def _outcomes(table: Table) -> Iterator[dict[str, Any]]:
    """One vector for each way that the scene can end."""
    seen: set[str] = set()
    for uniforms in [table.scene.uniforms] if table.scene.uniforms else _streams():
        chance = Chance(iter(uniforms))
        try:
            verdict = JUDGES[table.rule](table.proposal, table.q, table.p, table.trie, chance)
        except TooClose:
            continue
        way = _way(table, verdict, chance)
        if way not in seen:
            seen.add(way)
            yield _vector(table, verdict, chance, way)


def _streams() -> Iterator[list[float]]:
    """Uniforms of four digits: a reader can follow them with a pencil."""
    return ([round(u, 4) for u in islice(uniforms_of(seed), 40)] for seed in range(TRIES))


def _way(table: Table, verdict: Verdict, chance: Chance) -> str:
    if verdict.is_bonus:
        return "bonus"
    steps = {d.draft: d.step for d in table.proposal.decisions if d.row == verdict.accepted}
    step = steps.get(verdict.tested - 1, "token")
    where = f"{step}_{verdict.accepted if step == 'expand' else verdict.tested - 1}".replace(" ", "_")
    thinned = where.startswith("begin") and not chance.drew
    return f"refused_{where}" + ("_thinned" if thinned else "")


def _vector(table: Table, verdict: Verdict, chance: Chance, way: str) -> dict[str, Any]:
    scene = table.scene
    taken_back, spelled = draft_after(table.draft, table.proposal, verdict, table.trie)
    given = {
        "rule": table.rule,
        "map": scene.map,
        "active": table.trie.words.t(scene.active),
        "draft": table.draft,
        "proposal": table.proposal.tokens,
        "q": [list(distribution.weights) for distribution in table.q],
        "p": [list(distribution.weights) for distribution in table.p],
        "uniforms": chance.used,
    }
    expect = {
        "accepted": verdict.accepted,
        "token": verdict.token,
        "is_bonus": verdict.is_bonus,
        "tested": verdict.tested,
        "passed": verdict.passed,
        "target_rewind": len(table.proposal.tokens) - verdict.accepted,
        "draft_rewind": taken_back,
        "draft_append": spelled,
    }
    why = f"{scene.why}: {_sentence(way)}"
    return vector(f"{table.rule}_{scene.name}_{way}", why, given, expect)


def _sentence(way: str) -> str:
    if way == "bonus":
        return "all stands, and one more token is drawn"
    step, rest = way.removeprefix("refused_").rsplit("_", 1)[0], way.rsplit("_", 1)[1]
    if rest == "thinned":
        step = step.rsplit("_", 1)[0]
    return f"refused at {step.replace('_', ' ')}" + (
        ", replaced by the first try" if rest == "thinned" else ""
    )


def _paper_distributions() -> Iterator[dict[str, Any]]:
    """The paper's q' itself, as in its worked example."""
    for scene in SCENES:
        if "paper" not in scene.rules:
            continue
        table = _table(scene, "paper")
        used = [0, *table.proposal.ends]
        for i, token in enumerate(table.proposal.tokens):
            q = table.q[used[i] : used[i + 1]]
            given = {
                "map": scene.map,
                "active": table.trie.words.t(scene.active),
                "proposed": token,
                "q": [list(distribution.weights) for distribution in q],
            }
            name = f"distribution_{scene.name}_{i}"
            yield vector(
                name,
                f"q' of {table.trie.words.target[token]}",
                given,
                {"distribution": paper_distribution(table.trie, q, token)},
            )
