"""The loop: spec/04-speculation.md from section 3 to section 8, with models that sum over what they hold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vectorlib.reference.draft_length import Costs, Defaults, DraftLength, Plan, Record, class_of
from vectorlib.reference.grammar_tokens import GrammarText, Language
from vectorlib.reference.ngram_cache import NgramCache
from vectorlib.reference.random_source import Distribution, RandomSource
from vectorlib.reference.sampling import Sampling, draft_distribution, target_distribution
from vectorlib.reference.sum_model import Held, SumModel
from vectorlib.reference.translator import (
    MAX_DRAFT_TOKENS,
    Proposal,
    copied,
    matched,
    translate,
    translate_longest,
)
from vectorlib.reference.verifier import VERIFIERS, Verdict, draft_after
from vectorlib.reference.vocab_map import Trie, VocabMap

MAX_PROPOSED = 64
Allowed = Sequence[set[int] | None]  # ids that may follow 0, 1, ... proposed tokens; None: all
NOTHING = Plan("none", 0)
MARGIN = 1e-5  # the graphs compute in float32, and a runtime may


@dataclass(frozen=True)
class Task:
    """One generation.

    Attributes:
        start: draft ids that every context of the drafter begins with.
        active: n-grams that the cache holds at the start.
        draft_max_length: positions of the drafter; None: as many as the target has.
        num_draft_tokens: of each round; with costs the length is auto instead.
        defaults: constants of the length auto.
        language: what the output must belong to; None: any text.
    """

    vocab_map: VocabMap
    target: SumModel
    drafter: SumModel
    prompt: list[int]
    draft_prompt: list[int]
    mode: str = "trie"
    verification: str = "block"
    seed: int = 0
    num_draft_tokens: int = 4
    max_new_tokens: int = 24
    max_length: int = 64
    draft_max_length: int | None = None
    start: list[int] = field(default_factory=list)
    eos_ids: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    sampling: Sampling = field(default_factory=Sampling)
    logprobs: bool = False
    costs: Costs | None = None
    defaults: Defaults = field(default_factory=dict)
    language: Language | None = None

    @property
    def drafts(self) -> bool:
        return self.mode not in ("plain", "lookup")

    @property
    def copies(self) -> bool:
        """Whether a round may propose a copy of the context."""
        return self.mode == "lookup" or (self.mode == "trie" and self.costs is not None)

    def plan(self, length: DraftLength | None, match: int) -> Plan:
        """What the next round proposes; length: None where it is fixed."""
        if length is not None:
            return length.next(match)
        source = {"plain": "none", "lookup": "copy"}.get(self.mode, "draft")
        return Plan(source, self.num_draft_tokens)

    @property
    def text(self) -> GrammarText | None:
        """A new text of the language."""
        if self.language is None:
            return None
        return GrammarText(self.language, self.eos_ids, proposes=self.mode != "plain")

    @property
    def uses_cache(self) -> bool:
        return self.mode not in ("direct", "plain", "lookup")

    @property
    def rule(self) -> str:
        """The verification rule, a key of VERIFIERS; at temperature 0 every mode takes the argmax."""
        if self.sampling.temperature == 0.0 or self.mode in ("match", "lookup"):
            return "match"
        if self.mode == "paper":
            return "paper"
        return self.verification if self.mode == "trie" else "token"

    @property
    def banned(self) -> set[int]:
        """Draft ids that the drafter may not propose: control tokens, or all that the mode cannot use."""
        vocab_map = self.vocab_map
        if not self.uses_cache:
            return {d for d, t in enumerate(vocab_map.direct) if t < 0}
        return {d for d, name in enumerate(vocab_map.draft) if name in vocab_map.control}


@dataclass
class Models:
    """What outlives a generation in a session: the KV of both models, and the n-grams."""

    cache: NgramCache
    target: Held = field(default_factory=Held)
    drafter: Held = field(default_factory=Held)

    @classmethod
    def of(cls, task: Task) -> "Models":
        cache = NgramCache(task.vocab_map)
        for t in task.active:
            cache.insert(t)
        return cls(cache)


def generate(task: Task, random: RandomSource, models: Models | None = None) -> Iterator[dict[str, Any]]:
    """The rounds of a generation, as the JSON objects of the vectors; without models it begins a session."""
    tokens, room = list(task.prompt), task.max_new_tokens
    context = list(task.draft_prompt) if task.drafts else []
    models = Models.of(task) if models is None else models
    cache, text = models.cache, task.text
    length = None if task.costs is None else DraftLength(
        task.costs, task.defaults, drafts=task.drafts, copies=task.copies)  # fmt: skip
    if length is not None:
        length.begin_text(len(context))
    while room > 0 and len(tokens) <= task.max_length:
        most = min(MAX_PROPOSED, task.max_length - len(tokens), room - 1)
        trie = Trie(task.vocab_map, list(cache.entries) if task.uses_cache else [])
        copy, match = (copied(tokens), matched(tokens)) if task.copies and most > 0 else ([], 0)
        fixed, certain = text.fixed(task.costs) if text is not None and most > 0 else ([], 0)
        if text is not None:
            copy = fixed or text.valid(copy)
            match = match if copy and not fixed else 0
        if text is not None and length is not None and most > 0:
            length.repaid = text.repaid(task.defaults["repaid"], fixes=bool(fixed))
        plan = task.plan(length, match) if most > 0 and not fixed else NOTHING
        if plan.fresh:
            context = context[-int(task.defaults["most_unread"]) :]
        drafting = plan if plan.source == "draft" else NOTHING
        draft, q, passes, classes = _draft(task, context, drafting, random, models, text)
        copying = plan.source == "copy" or bool(fixed)
        copies = copy[: min(plan.count or len(fixed), most)]
        proposal = _as_proposal(copies) if copying else _translate(task, draft, trie, most)
        target_pass = models.target.read(tokens, proposal.tokens)
        left = min(room, task.max_length - len(tokens) + 1)
        allowed = [None] * 65 if text is None else text.allowed(proposal.tokens, left)
        p = _rows(task, tokens, proposal, allowed)
        verdict = VERIFIERS["match" if copying else task.rule](proposal, q, p, trie, random)
        emitted = [*proposal.tokens[: verdict.accepted], verdict.token]
        emitted = _until_end(emitted if text is None else text.go_on(emitted, left), task.eos_ids)
        accepted = min(verdict.accepted, len(emitted))
        learned = cache.learn(emitted, accepted) if task.uses_cache else 0
        round_json = _as_json(draft, proposal, verdict, emitted, accepted, learned)
        round_json |= {"target_passes": target_pass, "draft_passes": passes}
        if length is not None:
            agreed = 0 if fixed else _equal_at_start(copy, emitted)
            evaluated = verdict.evaluated, verdict.accepted_drafts
            planned = most > 0 and not fixed
            length.record(Record(match, classes, *evaluated, len(emitted), agreed))
            round_json |= {"plan": plan.row() if planned else None, "match": match,
                           "agreed": agreed}  # fmt: skip
        if text is not None and fixed:
            text.learn(_equal_at_start(fixed, emitted), len(fixed), certain)
        if task.logprobs:
            round_json["logprobs"] = _logprobs(task, tokens, proposal, p, emitted, allowed)
        tokens += emitted
        models.target.tokens = tokens[:-1]
        if task.drafts:
            context += _context_after(draft, proposal, verdict, trie, copying=copying)
        is_complete = text is not None and text.is_complete
        written = None if length is None else length.written
        yield round_json | {"context": list(context), "complete": is_complete, "written": written}
        if emitted[-1] in task.eos_ids or is_complete:
            return
        room -= len(emitted)


def _logprobs(
    task: Task,
    tokens: Sequence[int],
    proposal: Proposal,
    p: list[Distribution],
    emitted: Sequence[int],
    allowed: Allowed,
) -> list[float]:
    """Log-probabilities by p; where p is certain, by the distribution of T = 1 after the penalty alone."""
    if task.sampling.temperature == 0.0:
        softmax = Sampling(1.0, repetition_penalty=task.sampling.repetition_penalty)
        p = _rows(replace(task, sampling=softmax), tokens, proposal, allowed)
    return [math.log(row.probability(t)) for row, t in zip(p, emitted, strict=False)]


def _equal_at_start(copy: Sequence[int], emitted: Sequence[int]) -> int:
    """Emitted tokens that equal a copy's, from the first on."""
    equal = [a == b for a, b in zip(copy, emitted, strict=False)]
    return [*equal, False].index(False)


def _context_after(
    draft: list[int], proposal: Proposal, verdict: Verdict, trie: Trie, *, copying: bool
) -> list[int]:
    """Draft tokens that a round appends to the drafter's context; every token of a copy is spelled."""
    if copying:
        tokens = [*proposal.tokens[: verdict.accepted], verdict.token]
        return [d for t in tokens for d in trie.vocab_map.spelling(t)]
    rewind, spelled = draft_after(draft, proposal, verdict, trie)
    return draft[: len(draft) - rewind] + spelled


def _draft(
    task: Task,
    context: Sequence[int],
    plan: Plan,
    random: RandomSource,
    models: Models,
    text: GrammarText | None,
) -> tuple[list[int], list[Distribution], list[int], list[int]]:
    """Draft tokens, their distributions, the passes (past, tokens read), and classes of confidence."""
    if not task.start and not context:
        return [], [], [], []
    positions = task.draft_max_length or task.max_length
    known = [*task.start, *context[window(len(context), positions, bool(task.start)) :]]
    distributions, passes, classes = list[Distribution](), list[int](), list[int]()
    size, begun = len(task.vocab_map.draft), len(known)
    if plan.count:
        models.drafter.keep(known)
    while len(distributions) < min(plan.count, positions // 2):
        banned = task.banned
        if text is not None:
            banned |= set(range(size)) - text.may_draft(known[begun:], size)
        if len(banned) == size:
            break
        past, fed = models.drafter.read(known)
        passes += [fed] if passes else [past, fed]
        row = task.drafter.row(known)
        if plan.chances:
            q = draft_distribution(row, task.sampling.temperature or 1.0, banned)
            classes.append(class_of(max(q.probability(d) for d in range(size)), task.defaults))
            if not plan.proposes(classes):
                break
        distributions.append(draft_distribution(row, task.sampling.temperature, banned))
        known.append(random.sample(distributions[-1]))
        if plan.chances and not plan.goes_on(classes):
            break
    return known[len(known) - len(distributions) :], distributions, passes, classes


def window(length: int, positions: int, has_bos: bool) -> int:
    """The first id of a context that the drafter reads; positions: those of the drafter."""
    room = positions - min(MAX_DRAFT_TOKENS, positions // 2) - has_bos
    half = max(1, room // 2)
    return 0 if length <= room else half * math.ceil((length - room) / half)


def _as_proposal(tokens: list[int]) -> Proposal:
    """A copy, which uses no draft tokens."""
    return Proposal(tokens, ends=[0] * len(tokens), used=0)


def _translate(task: Task, draft: Sequence[int], trie: Trie, most: int) -> Proposal:
    if task.rule in ("match", "paper"):
        return translate_longest(draft, trie, most, expand=task.uses_cache and task.rule != "paper")
    return translate(draft, trie, most, expand=task.uses_cache)


def _rows(task: Task, tokens: Sequence[int], proposal: Proposal, allowed: Allowed) -> list[Distribution]:
    """The target's distribution at each proposed position and after the last."""
    context, rows = [*tokens, *proposal.tokens], list[Distribution]()
    for n, may in zip(range(len(tokens), len(context) + 1), allowed, strict=False):
        row = task.target.row(context[:n])
        row = [x if may is None or t in may else -math.inf for t, x in enumerate(row)]
        rows.append(target_distribution(row, task.sampling, context[:n], MARGIN))
    return rows


def _until_end(emitted: list[int], eos_ids: Sequence[int]) -> list[int]:
    ends = [i for i, t in enumerate(emitted) if t in eos_ids]
    return emitted[: ends[0] + 1] if ends else emitted


def _as_json(
    draft: list[int], proposal: Proposal, verdict: Verdict, emitted: list[int], accepted: int, learned: int
) -> dict[str, Any]:
    return {
        "draft": draft, "proposed": proposal.tokens, "accepted": accepted, "emitted": emitted,
        "evaluated": verdict.evaluated, "accepted_drafts": verdict.accepted_drafts, "learned": learned,
    }  # fmt: skip
