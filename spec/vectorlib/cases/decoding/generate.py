"""Vectors of `generate`: whole generations, on models that look up a table."""

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from vectorlib.reference.generate import MARGIN, Rows, Task, generate
from vectorlib.reference.random_source import RandomSource, uniforms_of
from vectorlib.reference.sampling import Sampling
from vectorlib.reference.table_model import table_model
from vectorlib.reference.vocab_map import TOY, VocabMap
from vectorlib.writer import VectorWriter, vector

HOT = Sampling(1.0)


def table(seed: int, rows: int, follows: dict[int, int]) -> Rows:
    """Logits by the last token, multiples of 1/16, which float32 holds; `follows`: likeliest next tokens."""
    numbers = uniforms_of(seed)
    logits = [[round(64 * u) / 16 - 2.0 for u in islice(numbers, rows)] for _ in range(rows)]
    for before, after in follows.items():
        logits[before][after] = 4.0
    return logits


def ring(vocab_map: VocabMap, names: str, role: str) -> dict[int, int]:
    """Each name is followed by the next name, and the last by the first."""
    ids = vocab_map.t(names) if role == "target" else vocab_map.d(names)
    return dict(zip(ids, [*ids[1:], ids[0]], strict=True))


TARGET = table(11, len(TOY.target), ring(TOY, "S FLAKE O", "target"))
DRAFTER = table(12, len(TOY.draft), ring(TOY, "s f la ke o", "drafter"))
TEXT = Task(TOY, TARGET, DRAFTER, prompt=TOY.t("S LA F"), draft_prompt=TOY.d("s la f"), start=TOY.d("</s>"))
CACHED = replace(TEXT, active=TOY.t("FLAKE FO LAKE FLAS"))
EOS = TOY.t("<eos>")

CASES: list[tuple[str, str, Task]] = [
    ("greedy_plain", "without a drafter: the output that the next vectors must repeat", replace(TEXT,
     mode="plain")),
    ("greedy_trie", "speculative output equals plain output", TEXT),
    ("greedy_trie_cached", "the same with n-grams from the start", CACHED),
    ("greedy_one", "one draft token a round", replace(CACHED, num_draft_tokens=1)),
    ("greedy_eight", "eight draft tokens a round", replace(CACHED, num_draft_tokens=8)),
    ("greedy_48", "48 draft tokens, more than there is room for", replace(CACHED, num_draft_tokens=48)),
    ("greedy_match", "mode match", replace(CACHED, mode="match")),
    ("greedy_direct", "mode direct has no n-grams", replace(CACHED, mode="direct")),
    ("greedy_paper", "mode paper", replace(CACHED, mode="paper")),
    ("greedy_lookup", "mode lookup copies from the context", replace(TEXT, mode="lookup",
     prompt=TOY.t("S LA F S LA"))),
    ("greedy_penalty", "the argmax after the penalty", replace(CACHED, sampling=Sampling(0.0,
     repetition_penalty=1.4))),
    ("greedy_penalty_strong", "a proposed token is penalised in the rows after it",
     replace(CACHED, sampling=Sampling(0.0, repetition_penalty=4.0), prompt=TOY.t("X"), num_draft_tokens=8)),
    ("plain", "sampled: one uniform a token", replace(TEXT, mode="plain", sampling=HOT, seed=1)),
    ("token", "token-level verification, learning n-grams", replace(TEXT, verification="token", sampling=HOT,
     seed=2)),
    ("token_cached", "the same with n-grams from the start", replace(CACHED, verification="token",
     sampling=HOT, seed=3)),
    ("block", "block verification, learning n-grams", replace(TEXT, sampling=HOT, seed=4)),
    ("block_cached", "the same with n-grams from the start", replace(CACHED, sampling=HOT, seed=5)),
    ("block_eight", "eight draft tokens a round", replace(CACHED, sampling=HOT, seed=6, num_draft_tokens=8)),
    ("match", "mode match", replace(CACHED, mode="match", sampling=HOT, seed=7)),
    ("direct", "mode direct: q renormalised over the direct pairs", replace(CACHED, mode="direct",
     sampling=HOT, seed=8)),
    ("paper", "mode paper, approximate", replace(CACHED, mode="paper", sampling=HOT, seed=9)),
    ("lookup", "mode lookup takes no uniform for its drafts", replace(TEXT, mode="lookup",
     sampling=Sampling(0.5), seed=10, prompt=TOY.t("S LA F S LA"))),
    ("cold", "a low temperature", replace(CACHED, sampling=Sampling(0.3), seed=11)),
    ("warm", "a high temperature: orphans and control tokens are emitted too",
     replace(CACHED, sampling=Sampling(1.5),
     seed=12)),
    ("truncated", "top-k, top-p and min-p: the drafter's distribution is not truncated", replace(CACHED,
     sampling=Sampling(1.0, 6, 0.9, 0.05), seed=13)),
    ("penalised", "a repetition penalty, with the proposed tokens in the context", replace(CACHED,
     sampling=Sampling(1.0, repetition_penalty=1.3), seed=14)),
    ("penalised_strong", "tokens proposed in the same round count as context",
     replace(CACHED, sampling=Sampling(1.0, repetition_penalty=4.0), seed=24, prompt=TOY.t("X"),
     num_draft_tokens=8)),
    ("everything", "all settings together",
     replace(CACHED, sampling=Sampling(0.9, 8, 0.95, 0.02, 1.2), seed=15)),
    ("top_k_1", "one token has all the mass, and a draw still takes its uniform", replace(CACHED,
     sampling=Sampling(1.0, 1), seed=16)),
    ("eos", "the end token, maybe inside a round", replace(CACHED, sampling=Sampling(1.3), seed=17,
     eos_ids=EOS, max_new_tokens=60)),
    ("eos_again", "another seed", replace(CACHED, sampling=Sampling(1.3), seed=18, eos_ids=EOS,
     max_new_tokens=60)),
    ("eos_inside_block", "tokens accepted after the end token are not output and do not count",
     replace(CACHED, num_draft_tokens=8, eos_ids=TOY.t("O"))),
    ("eos_copied", "mode lookup copies an end token",
     replace(TEXT, mode="lookup", prompt=TOY.t("S FLAKE O S FLAKE O S"), eos_ids=TOY.t("O"),
     num_draft_tokens=6)),
    ("max_new_tokens_1", "no room for a draft", replace(CACHED, sampling=HOT, seed=19, max_new_tokens=1)),
    ("max_new_tokens_5", "the limit cuts the proposals", replace(CACHED, sampling=HOT, seed=20,
     max_new_tokens=5)),
    ("context_full", "the context is full: the last token needs no position",
     replace(CACHED, sampling=HOT, seed=21,
     max_length=12)),
    ("no_start", "a drafter without bos and without a prompt drafts nothing at first",
     replace(CACHED, sampling=HOT,
     seed=22, start=[], draft_prompt=[])),
    ("no_draft_prompt", "the drafter's context is its bos only",
     replace(CACHED, sampling=HOT, seed=25, draft_prompt=[])),
    ("one_token_prompt", "nothing to prefill", replace(CACHED, sampling=HOT, seed=23, prompt=TOY.t("S"),
     draft_prompt=TOY.d("s"))),
    ("seed_high", "a seed of 64 bits", replace(CACHED, sampling=HOT, seed=0xFEDCBA9876543210)),
]  # fmt: skip


SHORT = replace(CACHED, max_new_tokens=10, logprobs=True)
LOGPROBS: list[tuple[str, str, Task]] = [
    ("greedy", "of the softmax, not 0 as of the certain distribution", SHORT),
    ("greedy_penalised", "of the softmax after the penalty",
     replace(SHORT, sampling=Sampling(repetition_penalty=1.3))),
    ("greedy_truncated", "top-k, top-p and min-p do not apply",
     replace(SHORT, sampling=Sampling(0.0, 2, 0.5, 0.5))),
    ("plain", "of the softmax", replace(SHORT, mode="plain", sampling=HOT, seed=31)),
    ("token", "accepted tokens and corrections: of the target's distribution",
     replace(SHORT, verification="token", sampling=HOT, seed=32)),
    ("block", "the same for block verification", replace(SHORT, sampling=HOT, seed=33)),
    ("match", "mode match", replace(SHORT, mode="match", sampling=HOT, seed=34)),
    ("lookup", "mode lookup", replace(SHORT, mode="lookup", sampling=HOT, seed=35)),
    ("cold", "after the temperature", replace(SHORT, sampling=Sampling(0.4), seed=36)),
    ("truncated", "after top-k, top-p and min-p",
     replace(SHORT, sampling=Sampling(1.0, 6, 0.9, 0.05), seed=37)),
    ("penalised", "after the penalty, with the proposed tokens of the round in the context",
     replace(SHORT, sampling=Sampling(1.0, repetition_penalty=1.3), seed=38)),
    ("top_k_1", "one token has all the mass: 0", replace(SHORT, sampling=Sampling(1.0, 1), seed=39)),
    ("eos", "the end token has a log-probability, tokens accepted after it have none",
     replace(SHORT, num_draft_tokens=8, eos_ids=TOY.t("O"))),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    for name, rows in (("target", TARGET), ("drafter", DRAFTER)):
        writer.file(f"generate/{name}.onnx", table_model(np.array(rows, dtype=np.float32), TEXT.max_length))
        writer.table(f"generate/{name}.table.json", rows)
    writer.vectors("generate", "tables", [_vector(name, why, task) for name, why, task in CASES])
    writer.vectors("logprobs", "tables", [_vector(name, why, task) for name, why, task in LOGPROBS])


def _vector(name: str, why: str, task: Task) -> dict[str, Any]:
    random = RandomSource(uniforms_of(task.seed), MARGIN)
    rounds = list(generate(task, random))
    tokens = [t for each in rounds for t in each["emitted"]]
    sampling = {key: value for key, value in vars(task.sampling).items() if value != getattr(Sampling(), key)}
    given = {
        "target": "target.onnx", "drafter": "drafter.onnx", "map": "toy", "active": task.active,
        "prompt": task.prompt, "draft_prompt": task.draft_prompt, "draft_start": task.start,
        "mode": task.mode, "verification": task.verification, "sampling": sampling,
        "seed": f"{task.seed:#018x}", "num_draft_tokens": task.num_draft_tokens,
        "max_new_tokens": task.max_new_tokens, "max_length": task.max_length, "eos_ids": task.eos_ids,
    }  # fmt: skip
    return vector(name, why, given, {"tokens": tokens, "uniforms": len(random.used), "rounds": rounds})
