"""Vectors of `generate` and `logprobs`: whole generations, on models that sum over what they hold.

generate_tasks.py has the tasks of single texts.
"""

from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from vectorlib.cases.decoding.generate_tasks import (
    AUTOS,
    CASES,
    COPYING,
    ENDING,
    GOLDEN,
    GRAPHS,
    HOT,
    KEPT,
    LOGPROBS,
    PLAIN,
    TEXT,
    TIGHT,
)
from vectorlib.reference.generate import MARGIN, Models, Task, generate
from vectorlib.reference.random_source import MASK, RandomSource, TooClose, uniforms_of
from vectorlib.reference.sampling import Sampling
from vectorlib.reference.vocab_map import TOY
from vectorlib.writer import VectorWriter, vector

Change = dict[str, Any]


def sessions() -> list[tuple[str, str, list[Task]]]:
    """Several texts in one session: each keeps the keys and values that it shares with the one before."""
    ends = TOY.t("O")
    firsts = (("trie", ENDING), ("lookup", replace(COPYING, eos_ids=ends, num_draft_tokens=6)),
              ("plain", replace(PLAIN, eos_ids=ends)),
              ("window", replace(TIGHT, max_length=128, eos_ids=ends, num_draft_tokens=3)))  # fmt: skip
    why = "what follows an end token, a text with the same beginning, and its first two tokens"
    return [
        (f"session_{name}{end}", why, _texts(replace(first, sampling=sampling)))
        for name, first in firsts
        for end, sampling in (("", Sampling()), ("_sampled", HOT))
    ]


def _texts(first: Task) -> list[Task]:
    """Four texts of a session, with the first seeds that keep away from all edges."""
    for seed in range(100, 10000, 100):
        begun = replace(first, seed=seed)
        try:
            said = [*begun.prompt, *_tokens(begun)]
            spelled = [d for t in said[len(begun.prompt) :] for d in TOY.spelling(t)]
            texts = [
                begun,
                replace(begun, prompt=[*said, *TOY.t("LA S FLAKE")], seed=seed + 1, eos_ids=[],
                        draft_prompt=[*begun.draft_prompt, *spelled, *TOY.d("la s f la ke")]),
                replace(begun, prompt=[*begun.prompt, *TOY.t("KE X")], seed=seed + 2, eos_ids=[],
                        draft_prompt=[*begun.draft_prompt, *TOY.d("ke")]),
                replace(begun, prompt=begun.prompt[:2], draft_prompt=begun.draft_prompt[:2], seed=seed + 3),
            ]  # fmt: skip
            generation("", "", texts)
        except TooClose:
            continue
        return texts
    raise TooClose("all seeds are too close")


def restored() -> list[tuple[str, str, Task]]:
    """Generations that begin in the middle, as from a session file: with no keys and values."""
    cases = []
    for name, begun in (("trie", TEXT), ("lookup", COPYING), ("plain", PLAIN), ("window", TIGHT)):
        for end, sampling in (("", Sampling()), ("_sampled", HOT)):
            task = settled(replace(begun, sampling=sampling, seed=61))
            cases.append((f"restored_{name}{end}", "saved after 3 rounds; the rest of the same tokens is due",
                          _restored(task, 3)))  # fmt: skip
    return cases


def _restored(task: Task, rounds: int) -> Task:
    """The rest of a generation as a task of its own: its text, context, n-grams and random state."""
    random, models = RandomSource(uniforms_of(task.seed), MARGIN), Models.of(task)
    all_rounds, output = generate(task, random, models), list[int]()
    for each in islice(all_rounds, rounds):
        output += each["emitted"]
        context, active, taken = each["context"], list(models.cache.entries), len(random.used)
    rest = replace(
        task, prompt=[*task.prompt, *output], draft_prompt=context, active=active,
        seed=(task.seed + taken * GOLDEN) & MASK, max_new_tokens=task.max_new_tokens - len(output),
    )  # fmt: skip
    assert _tokens(rest) == [t for each in all_rounds for t in each["emitted"]], "another text is due"
    return rest


def settled(task: Task) -> Task:
    """The task with its own seed, or the first seed of others that keeps away from all edges."""
    for seed in range(task.seed, task.seed + 10000, 100):
        try:
            _tokens(replace(task, seed=seed))
        except TooClose:
            continue
        return replace(task, seed=seed)
    raise TooClose("a hundred seeds are too close")


def _tokens(task: Task) -> list[int]:
    rounds = generate(task, RandomSource(uniforms_of(task.seed), MARGIN))
    return [t for each in rounds for t in each["emitted"]]


def write(writer: VectorWriter) -> None:
    for name, model in GRAPHS.items():
        writer.file(f"generate/{name}.onnx", model.graph())
        writer.table(f"generate/{name}.table.json", model.as_json())
    writer.file("generate/fixed_rank.onnx", GRAPHS["drafter"].graph(lora_rank=4))
    one, kept, logprobs = (
        [(name, why, [settled(task)]) for name, why, task in cases] for cases in (CASES, KEPT, LOGPROBS)
    )
    autos = [generation(name, why, [settled(task)]) for name, why, task in AUTOS]
    writer.vectors("generate", "auto", autos)
    restored_ones = [(name, why, [task]) for name, why, task in restored()]
    writer.vectors("generate", "rounds", [generation(*case) for case in one])
    writer.vectors("generate", "kept", [generation(*case) for case in (*kept, *restored_ones, *sessions())])
    writer.vectors("logprobs", "rounds", [generation(*case) for case in logprobs])


def generation(name: str, why: str, texts: list[Task]) -> dict[str, Any]:
    """The vector of a generation, or of several in one session."""
    models = Models.of(texts[0])
    given, expect = [_input(task) for task in texts], [_expected(task, models) for task in texts]
    for later in given[1:]:
        assert later | {k: given[0][k] for k in CHANGES} == given[0], "another field changes"
    if len(texts) > 1:
        given[0]["then"] = [{key: later[key] for key in CHANGES} for later in given[1:]]
        expect[0]["then"] = expect[1:]
    return vector(name, why, given[0], expect[0])


CHANGES = ("prompt", "draft_prompt", "seed", "eos_ids")  # from text to text of a session


def _input(task: Task) -> dict[str, Any]:
    sampling = {key: value for key, value in vars(task.sampling).items() if value != getattr(Sampling(), key)}
    drafter = next(name for name, model in GRAPHS.items() if model is task.drafter)
    costs = {} if task.costs is None else {"num_draft_tokens": "auto", "costs": asdict(task.costs)}
    return {
        "target": "target.onnx", "drafter": f"{drafter}.onnx", "map": "toy", "active": task.active,
        "prompt": task.prompt, "draft_prompt": task.draft_prompt if task.drafts else [],
        "draft_start": task.start,
        "mode": task.mode, "verification": task.verification, "sampling": sampling,
        "seed": f"{task.seed:#018x}", "num_draft_tokens": task.num_draft_tokens,
        "max_new_tokens": task.max_new_tokens, "max_length": task.max_length,
        "draft_max_length": task.draft_max_length or task.max_length, "eos_ids": task.eos_ids,
        **costs, **({} if task.language is None else task.language.as_json()),
    }  # fmt: skip


def _expected(task: Task, models: Models) -> dict[str, Any]:
    random = RandomSource(uniforms_of(task.seed), MARGIN)
    rounds = list(generate(task, random, models))
    contexts = [each.pop("context") for each in rounds]
    complete = [each.pop("complete") for each in rounds][-1]
    written = [each.pop("written") for each in rounds][-1]
    entries = [
        {"target_id": t, "hits": entry.hits, "accepted": entry.accepted, "tick": entry.tick}
        for t, entry in sorted(models.cache.entries.items())
    ]
    tokens = [t for each in rounds for t in each["emitted"]]
    ends: Change = {"context": contexts[-1], "entries": entries}
    if task.language is not None:
        ends["complete"] = complete
    if written is not None:
        ends["written"] = written
    return {"tokens": tokens, "uniforms": len(random.used), **ends, "rounds": rounds}
