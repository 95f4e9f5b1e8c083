"""Vectors of `verify`: a scene, the uniforms that lead to each of its outcomes, and the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from vectorlib.cases.decoding.scenes import SCENES, Scene
from vectorlib.reference.random_source import Distribution, RandomSource, TooClose, uniforms_of
from vectorlib.reference.translator import Proposal, translate, translate_longest
from vectorlib.reference.verifier import VERIFIERS, Verdict, draft_after, paper_distribution
from vectorlib.reference.vocab_map import MAPS, Trie
from vectorlib.writer import VectorWriter, vector

SEEDS = 400  # streams of uniforms that are searched for outcomes
MAX_TOKENS = 8


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
    for rule in VERIFIERS:
        vectors = [v for scene in SCENES if rule in scene.rules for v in _outcomes(_table(scene, rule))]
        writer.vectors("verify", rule, vectors)
    writer.vectors("verify", "paper_distribution", list(_paper_distributions()))


def _table(scene: Scene, rule: str) -> Table:
    vocab_map = MAPS[scene.map]
    trie, draft = Trie(vocab_map, vocab_map.t(scene.active)), vocab_map.d(scene.draft)
    expand = rule != "paper"
    into_target = translate if rule in ("token", "block") else translate_longest
    q = [_distribution(vocab_map.draft, row) for row in scene.q]
    p = [_distribution(vocab_map.target, row) for row in scene.p]
    return Table(scene, rule, trie, draft, q, p, into_target(draft, trie, MAX_TOKENS, expand))


def _distribution(names: Sequence[str], row: str) -> Distribution:
    """A row such as "f 0.5 la 0.25"; a token that is not named has weight 0."""
    parts = row.split()
    weights = dict(zip(parts[::2], map(float, parts[1::2]), strict=True))
    assert set(weights) <= set(names), row
    return Distribution(tuple(weights.get(name, 0.0) for name in names))


def _outcomes(table: Table) -> Iterator[dict[str, Any]]:
    """One vector for each way in which the round can end."""
    seen: set[str] = set()
    for uniforms in [table.scene.uniforms] if table.scene.uniforms else _streams():
        random = RandomSource(iter(uniforms))
        try:
            verdict = VERIFIERS[table.rule](table.proposal, table.q, table.p, table.trie, random)
        except TooClose:
            continue
        outcome = _outcome(table, verdict, random)
        if outcome not in seen:
            seen.add(outcome)
            yield _vector(table, verdict, random, outcome)


def _streams() -> Iterator[list[float]]:
    """Uniforms of four digits, so a reader can check a vector by hand."""
    return ([round(u, 4) for u in islice(uniforms_of(seed), 40)] for seed in range(SEEDS))


def _outcome(table: Table, verdict: Verdict, random: RandomSource) -> str:
    if verdict.is_bonus:
        return "bonus"
    steps = {d.draft: d.step for d in table.proposal.decisions if d.row == verdict.accepted}
    step = steps.get(verdict.evaluated - 1, "token")
    by_token = step in ("expand", "token")  # several tokens share a draft token
    where = f"{step}_{verdict.accepted if by_token else verdict.evaluated - 1}".replace(" ", "_")
    first_try = where.startswith("begin") and not random.drew_index
    return f"rejected_{where}" + ("_first_try" if first_try else "")


def _vector(table: Table, verdict: Verdict, random: RandomSource, outcome: str) -> dict[str, Any]:
    scene = table.scene
    draft_rewind, draft_append = draft_after(table.draft, table.proposal, verdict, table.trie)
    given = {
        "rule": table.rule,
        "map": scene.map,
        "active": table.trie.vocab_map.t(scene.active),
        "draft": table.draft,
        "proposal": table.proposal.tokens,
        "q": [list(distribution.weights) for distribution in table.q],
        "p": [list(distribution.weights) for distribution in table.p],
        "uniforms": random.used,
    }
    expect = {
        "accepted": verdict.accepted,
        "token": verdict.token,
        "is_bonus": verdict.is_bonus,
        "evaluated": verdict.evaluated,
        "accepted_drafts": verdict.accepted_drafts,
        "target_rewind": len(table.proposal.tokens) - verdict.accepted,
        "draft_rewind": draft_rewind,
        "draft_append": draft_append,
    }
    why = f"{scene.why}: {_sentence(outcome)}"
    return vector(f"{table.rule}_{scene.name}_{outcome}", why, given, expect)


def _sentence(outcome: str) -> str:
    if outcome == "bonus":
        return "everything is accepted, and a bonus token is drawn"
    where = outcome.removeprefix("rejected_")
    first_try = where.endswith("_first_try")
    step = where.removesuffix("_first_try").rsplit("_", 1)[0].replace("_", " ")
    return f"rejected at {step}" + (", replaced by the first try" if first_try else "")


def _paper_distributions() -> Iterator[dict[str, Any]]:
    """The paper's q' itself."""
    for scene in SCENES:
        if "paper" not in scene.rules:
            continue
        table = _table(scene, "paper")
        used = [0, *table.proposal.ends]
        for i, token in enumerate(table.proposal.tokens):
            q = table.q[used[i] : used[i + 1]]
            given = {
                "map": scene.map,
                "active": table.trie.vocab_map.t(scene.active),
                "proposed": token,
                "q": [list(distribution.weights) for distribution in q],
            }
            name = f"distribution_{scene.name}_{i}"
            expect = {"distribution": paper_distribution(table.trie, q, token)}
            yield vector(name, f"q' of {table.trie.vocab_map.target[token]}", given, expect)
