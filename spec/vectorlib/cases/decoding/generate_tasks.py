"""Tasks of the vectors of `generate` and `logprobs`: each with its name and the reason why it is there."""

import json
from dataclasses import replace
from pathlib import Path

from vectorlib.reference.draft_length import Costs
from vectorlib.reference.generate import Task
from vectorlib.reference.sampling import Sampling
from vectorlib.reference.sum_model import SumModel
from vectorlib.reference.vocab_map import TOY, VocabMap

HOT = Sampling(1.0)
GOLDEN = 0x9E3779B97F4A7C15  # what each uniform adds to the state of SplitMix64


def ring(vocab_map: VocabMap, names: str, role: str) -> dict[int, int]:
    """Each name is followed by the next name, and the last by the first."""
    ids = vocab_map.t(names) if role == "target" else vocab_map.d(names)
    return dict(zip(ids, [*ids[1:], ids[0]], strict=True))


TARGET = SumModel.made(21, len(TOY.target), ring(TOY, "S FLAKE O", "target"), spread=1.75)
DRAFTER = SumModel.made(12, len(TOY.draft), ring(TOY, "s f la ke o", "drafter"), spread=0.5)
TEXT = Task(TOY, TARGET, DRAFTER, prompt=TOY.t("S LA F"), draft_prompt=TOY.d("s la f"), start=TOY.d("</s>"))
CACHED = replace(TEXT, active=TOY.t("FLAKE FO LAKE FLAS"))
EOS = TOY.t("<eos>")
# Draws s and sfo in turn, nearly always: 4 target tokens from 2 draft tokens.
LONG = SumModel.made(13, len(TOY.draft), dict.fromkeys(TOY.d("f la ke o i sfo"), TOY.d("s")[0]), spread=0.0)
LONG.by_token[TOY.d("s")[0]][TOY.d("sfo")[0]] = 4.0
LONG = replace(LONG, by_token=[[x * 2.25 for x in row] for row in LONG.by_token])
GRAPHS = {"target": TARGET, "drafter": DRAFTER, "long_drafter": LONG}

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
    ("cold", "a low temperature", replace(CACHED, sampling=Sampling(0.6), seed=11)),
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
    ("eos", "the end token, maybe inside a round", replace(CACHED, sampling=Sampling(1.3), seed=167,
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
    ("cold", "after the temperature", replace(SHORT, sampling=Sampling(0.6), seed=36)),
    ("truncated", "after top-k, top-p and min-p",
     replace(SHORT, sampling=Sampling(1.0, 6, 0.9, 0.05), seed=37)),
    ("penalised", "after the penalty, with the proposed tokens of the round in the context",
     replace(SHORT, sampling=Sampling(1.0, repetition_penalty=1.3), seed=38)),
    ("top_k_1", "one token has all the mass: 0", replace(SHORT, sampling=Sampling(1.0, 1), seed=39)),
    ("eos", "the end token has a log-probability, tokens accepted after it have none",
     replace(SHORT, num_draft_tokens=8, eos_ids=TOY.t("O"))),
]  # fmt: skip


WIDE = replace(CACHED, max_length=256, prompt=TOY.t("S FLAKE O LA KE F FLAKE X") * 19, draft_prompt=TOY.d(
    "s f la ke o la ke f f la ke") * 14)  # fmt: skip
SLIDING = replace(CACHED, draft_max_length=32, max_length=128, max_new_tokens=60)
TIGHT = replace(CACHED, draft_max_length=16, max_new_tokens=30)
SIXTY_FOUR = replace(CACHED, drafter=LONG, max_length=256, max_new_tokens=80, num_draft_tokens=40)
PLAIN = replace(TEXT, mode="plain")
COPYING = replace(TEXT, mode="lookup", prompt=TOY.t("S LA F S LA"))
ENDING = replace(CACHED, num_draft_tokens=8, eos_ids=TOY.t("O"))
KEPT: list[tuple[str, str, Task]] = [
    ("window_slides", "a drafter of 32 positions whose window slides", SLIDING),
    ("window_slides_sampled", "the same at temperature 1", replace(SLIDING, sampling=HOT, seed=41)),
    ("window_small", "16 positions: 7 for the context beside bos and a draft; the window moves by 3", TIGHT),
    ("window_small_sampled", "the same at temperature 1", replace(TIGHT, sampling=HOT, seed=42)),
    ("window_no_bos", "without a bos there is room for one id more", replace(TIGHT, start=[])),
    ("window_no_bos_sampled", "the same at temperature 1",
     replace(TIGHT, start=[], sampling=HOT, seed=43)),
    ("window_at_once", "a prompt that is longer than the drafter's window from the start",
     replace(SLIDING, draft_prompt=TOY.d("s f la ke o") * 11, max_new_tokens=20, sampling=HOT, seed=44)),
    ("window_eight", "8 draft tokens in 16 positions", replace(TIGHT, num_draft_tokens=8)),
    ("window_four", "4 positions: a window of one id", replace(TIGHT, draft_max_length=4)),
    ("most_64", "64 proposed tokens, from 32 of 40 draft tokens", SIXTY_FOUR),
    ("most_64_sampled", "the same by the walk",
     replace(SIXTY_FOUR, sampling=HOT, verification="token", seed=45)),
    ("long_prompt_plain", "a prompt of 152 tokens, which may be read in several passes",
     replace(WIDE, mode="plain", max_new_tokens=12)),
    ("long_prompt", "the same with a drafter, whose prompt is long too", replace(WIDE, max_new_tokens=12)),
    ("long_prompt_sampled", "the same at temperature 1",
     replace(WIDE, max_new_tokens=12, sampling=HOT, seed=46)),
    ("long_prompt_lookup", "48 copied tokens are proposed",
     replace(WIDE, mode="lookup", num_draft_tokens=48, max_new_tokens=60)),
    ("long_prompt_lookup_cut", "48 copied tokens, 19 of which are proposed",
     replace(WIDE, mode="lookup", num_draft_tokens=48, max_new_tokens=20, sampling=HOT, seed=47)),
]  # fmt: skip

DEFAULTS = json.loads((Path(__file__).resolve().parents[3] / "defaults.json").read_text(encoding="utf-8"))
EVEN = Costs((0.02, 0.021, 0.0225, 0.024, 0.026), 0.00407, 0.00103)
WRONG = Costs((0.02, 0.0203, 0.0207, 0.0211, 0.0215), 0.00071, 0.00013, acceptance=0.02)  # drafts in probes
AUTO = replace(CACHED, prompt=TOY.t("S FLAKE O S FLAKE O LA S FLAKE"), costs=EVEN, defaults=DEFAULTS[
    "draft_length"], draft_prompt=TOY.d("s f la ke o s f la ke o la s f la ke"), max_length=128,
    max_new_tokens=60)  # fmt: skip
# A longer pass costs so much that copies pay only after many were right.
STEEP = Costs((0.02, 0.03317, 0.0463), 0.0207, 0.00013, acceptance=0.02)
# A draft token costs little and a row of the target much: unlikely tokens are drafted and not proposed.
WARY = Costs((0.02, 0.0301, 0.0401), 0.0007, 0.0011)
AUTO_WRONG = replace(AUTO, costs=WRONG)
AUTO_LOOKUP = replace(AUTO, mode="lookup")
AUTOS: list[tuple[str, str, Task]] = [
    ("auto_greedy", "length auto: drafts, and copies of a text that repeats", AUTO),
    ("auto_token", "the same at temperature 1: copies by the rule match, drafts by the walk",
     replace(AUTO, sampling=HOT, verification="token", seed=71)),
    ("auto_block", "the same with block verification", replace(AUTO, sampling=HOT, seed=72)),
    ("auto_cold", "a low temperature, at which more copies are right",
     replace(AUTO, sampling=Sampling(0.5), seed=73)),
    ("auto_probes_greedy", "a drafter that is seldom right: copies, nothing, and probes", AUTO_WRONG),
    ("auto_probes_block", "the same at temperature 1", replace(AUTO_WRONG, sampling=HOT, seed=74)),
    ("auto_not_worth", "a draft token that the drafter is not sure of is not proposed",
     replace(AUTO, costs=WARY)),
    ("auto_not_worth_sampled", "the same at temperature 1", replace(AUTO, costs=WARY, sampling=HOT, seed=79)),
    ("auto_fresh", "a long text, of which the drafter reads the end",
     replace(AUTO, prompt=AUTO.prompt * 5, draft_prompt=AUTO.draft_prompt * 5, max_new_tokens=30)),
    ("auto_fresh_sampled", "the same at temperature 1", replace(AUTO, prompt=AUTO.prompt * 5, seed=78,
     draft_prompt=AUTO.draft_prompt * 5, max_new_tokens=30, sampling=HOT)),
    ("auto_probes_hot", "a probe reads what was said since the last draft",
     replace(AUTO_WRONG, sampling=Sampling(1.5), seed=76, prompt=TOY.t("S LA F"),
             draft_prompt=TOY.d("s la f"))),
    ("auto_not_copied", "copies that are not proposed are compared too", replace(AUTO, costs=STEEP)),
    ("auto_not_copied_sampled", "the same at temperature 0.5",
     replace(AUTO, costs=STEEP, sampling=Sampling(0.5), seed=77)),
    ("auto_lookup", "mode lookup: copies or nothing, without probes", AUTO_LOOKUP),
    ("auto_lookup_sampled", "the same at temperature 1", replace(AUTO_LOOKUP, sampling=HOT, seed=75)),
    ("auto_eos", "an end token that is copied", replace(AUTO_WRONG, eos_ids=TOY.t("O"))),
    ("auto_few", "the limit cuts a draft or a copy, and the last round asks for none",
     replace(AUTO, max_new_tokens=4)),
]  # fmt: skip
