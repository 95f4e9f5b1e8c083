"""Record what drafter and context would give at every position of the targets' answers.

    python -m benchmarks.draft_length_record [--prompts N] [--bundles DIR] [--only TASK]

`benchmarks.draft_length` replays rules on it. Both starter targets (fp32), the untrained and the learned
drafter (int8), prompts of four tasks that nothing was trained on, greedy and at temperature 1. Answers to
SciTLDR are short (23 tokens), so that task has more prompts. The first
lines are costs, measured on this machine. Any other line is an answer, without its text.
Each position:

    match, right   tokens of the context's match, and how many tokens after it continue the answer
    ends           draft tokens up to the end of each accepted target token, of a draft of `LONGEST` tokens
    refused        draft tokens up to the end of the refused target token; 0 where none was refused

At temperature 0 the drafter drafts at each position. At temperature 1 the text is fixed and the verdict
is drawn given the text: a target token is accepted with probability min(1, q / p), where q is the
product of the drafter's probabilities of its pieces. Its distribution is that of token verification,
except that drafts which spell the token in another way count as refused.
"""

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.support.task_data import require, rows
from omnidraft.commands.starters import export_starters, starter
from omnidraft.export.bundle import export_bundle
from omnidraft.export.options import Options
from omnidraft.export.quantize.quantize import INT4, INT8
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.decoding.draft_length import FixedLength
from omnidraft.runtime.decoding.drafter import Drafter
from omnidraft.runtime.decoding.length_state import LONGEST, Costs
from omnidraft.runtime.decoding.prompt_lookup import PromptLookup
from omnidraft.runtime.decoding.rng import SplitMix64
from omnidraft.runtime.decoding.sampling import SamplingConfig, draft_distribution, target_distribution
from omnidraft.runtime.decoding.translator import translate_longest
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.session.api import Session, load
from omnidraft.runtime.vocab.ngram_cache import NgramCache

ROWS = Path(__file__).parent / "results" / "draft_length_rows.jsonl"
NEW_TOKENS = 96
SHORT_ANSWERS = 100  # prompts of SciTLDR
FIRST_UNSEEN_MBPP = 910  # the targets were trained on the rows before it
Drafted = tuple[list[int], int]  # ends, refused


def unseen(count: int) -> dict[str, list[str]]:
    """`count` prompts of each task that no starter model was trained on."""
    code = [row["text"] for row in rows("mbpp/mbpp")[FIRST_UNSEEN_MBPP:]][: (count + 1) // 2]
    code += [row["prompt"] for row in rows("humaneval/humaneval")[: count // 2]]
    alpaca = [f"{r['instruction']}\n{r['input']}".strip() for r in rows("alpaca/test")[:count]]
    papers = ["Summarize in one sentence: " + " ".join(row["source"]) for row in rows("scitldr/dev")]
    papers = papers[: max(count, SHORT_ANSWERS)]
    questions = [row["question"] for row in rows("gsm8k/test")[:count]]
    return {"gsm8k": questions, "code": code, "alpaca": alpaca, "scitldr": papers}


def costs(place: Path) -> Iterator[dict[str, Any]]:
    """The costs of both targets in fp32 and int4: as measured at export, with the fastest of many passes."""
    for pair in export_starters(place, lambda *_: None):
        bundle = place / f"{pair.name}-int4"
        if not bundle.exists():
            options = Options(INT4, drafter_quantization=INT8, lora_drafter=False)
            export_bundle(str(starter(pair.name[-1])), str(starter("drafter")), bundle, options)
        for kind, path in (("fp32", pair.untrained), ("int4", bundle)):
            measured: Costs = replace(open_bundle(path).costs, target=fastest(path))
            yield {"costs": f"{pair.name} {kind}", **asdict(measured), "read": seconds_to_read(path)}


def fastest(bundle: Path, longest: int = 9, repeats: int = 100) -> tuple[float, ...]:
    """Seconds of the fastest target pass over 1 to `longest` tokens, because other work only adds time."""
    target = load(bundle, threads=1).models.target
    seconds = [math.inf] * longest
    target.score([0] * 64, num_logits=1)
    for _ in range(repeats):
        for n in range(longest):
            started = time.perf_counter()
            target.score([0] * (n + 1))
            seconds[n] = min(seconds[n], time.perf_counter() - started)
            target.rewind(64)
    return tuple(seconds)


def seconds_to_read(bundle: Path, tokens: int = 64, repeats: int = 20) -> float:
    """Seconds that the drafter takes to read one token of a text, the median of some readings."""
    model, seconds = load(bundle).models.drafter.model, []
    for _ in range(repeats):
        model.rewind(0)
        started = time.perf_counter()
        model.score([0] * tokens, num_logits=1)
        seconds.append((time.perf_counter() - started) / tokens)
    return median(seconds)


def record(place: Path, prompts: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Every answer of every pair to these prompts by task."""
    for pair in export_starters(place, lambda *_: None):
        for drafter in ("untrained", "learned"):
            for temperature in (0.0, 1.0):
                learned = drafter == "learned"
                session = load(pair.learned, cache=pair.cache) if learned else load(pair.untrained)
                prior = session.bundle.costs.acceptance
                arm = {"target": pair.name, "drafter": drafter, "temperature": temperature, "prior": prior}
                for task, texts in prompts.items():
                    for seed, text in enumerate(texts):
                        yield {**arm, "task": task, **record_answer(session, text, temperature, seed)}


def record_answer(session: Session, prompt: str, temperature: float, seed: int) -> dict[str, Any]:
    """An answer of the target, and what drafter and context give at its positions."""
    config: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "temperature": temperature, "seed": seed}
    answer = session.generate(prompt, mode="plain", **config).finish()
    tokens, context = answer.token_ids, session.draft_prompt(answer.prompt_ids)
    if temperature > 0.0:
        drafted = sampled(session, answer.prompt_ids, context, tokens, temperature, seed)
    else:
        drafted = list(greedy(session.models.drafter, session.cache, context, tokens))
    for start in range(0, len(tokens), 4):  # what the rounds of a generation would have learned
        session.cache.learn(tokens[start : start + 4], 0)
    copied = copies([*answer.prompt_ids, *tokens], len(answer.prompt_ids))
    positions = [[*copy, *draft] for copy, draft in zip(copied, drafted, strict=True)]
    return {"prompt": len(answer.prompt_ids), "positions": positions}


def copies(text: Sequence[int], start: int) -> Iterator[tuple[int, int]]:
    """At each position from `start` on: tokens of the match, and tokens of the copy that are right."""
    lookup = PromptLookup()
    for at in range(start, len(text)):
        copy = lookup.find(text[:at])
        yield copy.match, agreeing(copy.tokens, text[at:])


def agreeing(guess: Sequence[int], text: Sequence[int]) -> int:
    """Length of the common prefix."""
    return next(
        (i for i, (a, b) in enumerate(zip(guess, text, strict=False)) if a != b), min(len(guess), len(text))
    )


def greedy(
    drafter: Drafter, cache: NgramCache, context: Sequence[int], tokens: Sequence[int]
) -> Iterator[Drafted]:
    """Drafts at temperature 0."""
    banned, context = np.flatnonzero(~cache.map.draft_allowed), list(context)
    for at, token in enumerate(tokens):
        draft = drafter.propose(context, LONGEST, FixedLength(LONGEST), 0.0, banned, SplitMix64(0))
        proposal = translate_longest(draft.tokens, cache.trie, max_tokens=64)
        right = agreeing(proposal.tokens, tokens[at:])
        yield proposal.ends[:right], proposal.ends[right] if right < len(proposal.tokens) else 0
        context += cache.map.spell(token)


def sampled(
    session: Session,
    prompt: Sequence[int],
    context: Sequence[int],
    tokens: Sequence[int],
    temperature: float,
    seed: int,
) -> list[Drafted]:
    """What token verification would accept, given the text; see the module."""
    vocab_map, models, sampling = session.vocab_map, session.models, SamplingConfig(temperature)
    models.target.rewind(0)
    logits = models.target.score([*prompt, *tokens[:-1]], len(tokens))
    p = [
        target_distribution(row, sampling).probability(np.array([t]))[0]
        for row, t in zip(logits, tokens, strict=True)
    ]
    pieces = [vocab_map.spell(token) for token in tokens]
    flat = [d for each in pieces for d in each]
    drafter = models.drafter
    drafter.forget()
    drafter.model.rewind(0)
    read = [*drafter.start, *context, *flat][-drafter.model.max_length + 1 :]
    banned = np.flatnonzero(~vocab_map.draft_allowed)
    rows = [draft_distribution(row, temperature, banned) for row in drafter.model.score(read[:-1], len(flat))]
    q = iter([row.probability(np.array([d]))[0] for row, d in zip(rows, flat, strict=True)])
    uniforms, accepted = random.Random(seed), list[bool]()
    for i, (token, each) in enumerate(zip(tokens, pieces, strict=True)):
        chance = float(np.prod([next(q) for _ in each])) / max(float(p[i]), 1e-30)
        known = len(each) == 1 or token in tokens[:i] or token in session.cache
        accepted.append(uniforms.random() < chance and bool(each) and known)
    drafter.forget()
    return [spelled(pieces[i:], accepted[i:]) for i in range(len(tokens))]


def spelled(pieces: Sequence[Sequence[int]], accepted: Sequence[bool]) -> Drafted:
    """What a draft of `LONGEST` tokens that spells a text as far as it is accepted gives."""
    ends, used = list[int](), 0
    for each, right in zip(pieces, accepted, strict=True):
        if not right:
            break
        used += len(each)
        if used > LONGEST:
            return ends, 0
        ends.append(used)
    return ends, used + 1 if used < LONGEST else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", type=int, default=12, help="prompts of each task")
    parser.add_argument("--bundles", type=Path, help="directory of exported starter pairs; it is kept")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file to write")
    parser.add_argument("--only", metavar="TASK", help="record this task again, keep the other lines")
    options = parser.parse_args()
    require("tasks")
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    prompts, only = unseen(options.prompts), options.only
    kept = list[dict[str, Any]]()
    if only is not None:
        prompts = {only: prompts[only]}
        lines = map(json.loads, options.rows.read_text(encoding="utf-8").splitlines())
        kept = [line for line in lines if line.get("task") != only]
    with tempfile.TemporaryDirectory() as place:
        bundles = options.bundles or Path(place)
        first = costs(bundles) if only is None else iter(kept)
        written = [json.dumps(line, separators=(",", ":")) for line in chain(first, record(bundles, prompts))]
    write_atomically(options.rows, "".join(f"{line}\n" for line in written).encode())


if __name__ == "__main__":
    main()
