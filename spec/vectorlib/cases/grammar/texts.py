"""Vectors of `grammar/generate`: whole generations whose output belongs to a grammar."""

from dataclasses import replace

from vectorlib.cases.decoding.generate import generation, settled
from vectorlib.cases.decoding.generate_tasks import AUTO, CACHED, EVEN, HOT, STEEP
from vectorlib.cases.grammar.grammars import GRAMMARS
from vectorlib.reference.draft_length import Costs
from vectorlib.reference.generate import Task
from vectorlib.reference.grammar_tokens import Language
from vectorlib.reference.sampling import Sampling
from vectorlib.reference.vocab_map import TOY
from vectorlib.writer import VectorWriter

TARGET = [b"F" if name == "F'" else TOY.bytes_of(t) or None for t, name in enumerate(TOY.target)]
DRAFT = [None if name in TOY.control else name.upper().encode() for name in TOY.draft]
DRAFT[TOY.draft.index("i")] = (
    b"X"  # the drafter can write the texts, and X only by a token that maps to nothing
)
NO_KE = [None if token == b"KE" else token for token in DRAFT]
# KE only by a control token, which the drafter may not propose.
CONTROL_KE = [
    b"KE" if name == "#" else None if name in ("ke", "o", "f", "sfo") else token
    for name, token in zip(TOY.draft, DRAFT, strict=True)
]
EOS = TOY.t("<eos>")


def inside(name: str, task: Task, drafts: list[bytes | None] = DRAFT) -> Task:
    """The task with an output in a grammar."""
    return replace(task, language=Language(f"{name}.grammar", GRAMMARS[name], TARGET, drafts))


SONG = inside("song", replace(CACHED, eos_ids=EOS))
NEST = inside("nest", replace(CACHED, eos_ids=EOS, max_new_tokens=16))
OPEN = inside("open", replace(CACHED, max_new_tokens=3))
REFRAIN = inside("refrain", replace(CACHED, eos_ids=EOS, num_draft_tokens=12, max_new_tokens=9))
WARM = Sampling(1.4)
# A pass over two tokens takes twice the time, so nothing pays.
DEAR = Costs((0.02, 0.0417, 0.0643), 0.0207, 0.00013, acceptance=0.02)
AUTO_SONG = replace(SONG, costs=EVEN, defaults=AUTO.defaults, max_length=128)
CASES: list[tuple[str, str, Task]] = [
    (
        "plain",
        "greedy, without proposals: the output that the next vectors repeat",
        replace(SONG, mode="plain"),
    ),
    ("trie", "fixed bytes in place of drafts, and drafts inside the grammar", SONG),
    ("match", "mode match", replace(SONG, mode="match")),
    (
        "lookup",
        "copies end where they leave the grammar",
        replace(SONG, mode="lookup", prompt=TOY.t("S FLAKE O LA KE X LAKE O S FLAKE FO"), num_draft_tokens=6),
    ),
    ("plain_sampled", "p restricted and normalised", replace(SONG, mode="plain", sampling=HOT, seed=201)),
    (
        "token",
        "by the walk, learning n-grams",
        replace(SONG, active=[], verification="token", sampling=HOT, seed=202),
    ),
    ("block", "block verification", replace(SONG, sampling=HOT, seed=203, num_draft_tokens=8)),
    ("match_sampled", "mode match", replace(SONG, mode="match", sampling=HOT, seed=204)),
    (
        "lookup_sampled",
        "mode lookup",
        replace(
            SONG,
            mode="lookup",
            sampling=WARM,
            seed=205,
            prompt=TOY.t("S FLAKE O LA KE FO FLAKE O"),
            num_draft_tokens=6,
        ),
    ),
    (
        "truncated",
        "the restriction comes before top-k, top-p and min-p",
        replace(SONG, sampling=Sampling(1.2, 3, 0.9, 0.05), seed=206),
    ),
    (
        "penalised",
        "and before the penalty",
        replace(SONG, sampling=Sampling(1.0, repetition_penalty=2.5), seed=207),
    ),
    (
        "greedy_penalised",
        "at temperature 0 too",
        replace(SONG, sampling=Sampling(0.0, repetition_penalty=3.0)),
    ),
    ("logprobs", "of the restricted distribution", replace(SONG, sampling=HOT, seed=208, logprobs=True)),
    ("greedy_logprobs", "of its softmax", replace(SONG, logprobs=True, max_new_tokens=12)),
    (
        "no_end",
        "without an end token, nothing is allowed behind the end, and the row there is not restricted",
        replace(SONG, eos_ids=[], sampling=HOT, seed=209),
    ),
    (
        "refrain",
        "tokens that are accepted behind the place where the text is last are not output",
        replace(REFRAIN, eos_ids=[], sampling=Sampling(0.5), seed=226),
    ),
    ("refrain_end", "with an end token too", replace(REFRAIN, sampling=Sampling(0.5), seed=226)),
    ("refrain_greedy", "greedy", replace(REFRAIN, max_new_tokens=10)),
    (
        "nest_no_end",
        "a complete text goes on up to the limit",
        replace(NEST, eos_ids=[], sampling=WARM, seed=227, num_draft_tokens=8),
    ),
    ("nest", "a stack, and an end token where the text is complete", replace(NEST, sampling=WARM, seed=210)),
    ("nest_block", "another seed", replace(NEST, sampling=Sampling(2.0), seed=211, max_new_tokens=24)),
    ("nest_plain", "without proposals", replace(NEST, mode="plain", sampling=Sampling(2.0), seed=212)),
    (
        "room",
        "the fewest tokens: every token leads to the end",
        replace(SONG, max_new_tokens=6, sampling=WARM, seed=213),
    ),
    ("room_more", "two more", replace(SONG, max_new_tokens=8, sampling=WARM, seed=214)),
    ("room_nest", "rules are closed in time", replace(NEST, max_new_tokens=5, sampling=WARM, seed=215)),
    (
        "positions",
        "the positions that are left are the room",
        replace(SONG, max_length=12, sampling=WARM, seed=216),
    ),
    (
        "open",
        "without an end token the text ends where nothing fits the room",
        replace(OPEN, sampling=HOT, seed=217),
    ),
    ("open_room", "with enough room it goes on", replace(OPEN, max_new_tokens=4, sampling=HOT, seed=218)),
    (
        "open_one",
        "the last token that there is room for: the reason is length",
        replace(OPEN, max_new_tokens=1),
    ),
    ("open_end", "an end token may follow", replace(OPEN, eos_ids=EOS, sampling=HOT, seed=220)),
    (
        "drafter_cannot",
        "a drafter that cannot write the texts is not restricted",
        inside("nest", replace(CACHED, eos_ids=EOS, max_new_tokens=16, sampling=WARM, seed=221), NO_KE),
    ),
    (
        "drafter_control",
        "a draft ends where only a control token may follow",
        inside("nest", replace(CACHED, eos_ids=EOS, max_new_tokens=16, sampling=WARM, seed=247), CONTROL_KE),
    ),
    (
        "auto_chorus",
        "the share of fixed tokens that were right decides how many are proposed",
        inside("chorus", replace(AUTO_SONG, costs=STEEP, sampling=WARM, seed=392)),
    ),
    (
        "auto_verse",
        "certain tokens are proposed always, and teach nothing; what may be written otherwise has a share",
        inside("verse", replace(AUTO_SONG, costs=STEEP, sampling=HOT, seed=402, max_new_tokens=40)),
    ),
    (
        "auto_word",
        "nothing is fixed: the time of reading is spread as without a grammar",
        inside("word", replace(AUTO_SONG, sampling=HOT, seed=403, max_new_tokens=24)),
    ),
    (
        "auto_refrain",
        "the round is one of those that the time of reading is spread over",
        inside(
            "refrain",
            replace(
                AUTO_SONG,
                costs=replace(EVEN, draft=0.00253, acceptance=0.3),
                sampling=WARM,
                seed=656,
                max_new_tokens=40,
            ),
        ),
    ),
    ("auto", "as many fixed tokens as pay; they teach the draft length nothing", AUTO_SONG),
    (
        "auto_sampled",
        "the share of fixed tokens that were right falls",
        replace(AUTO_SONG, sampling=WARM, seed=222, max_new_tokens=40),
    ),
    (
        "auto_steep",
        "a longer pass costs too much for some fixed tokens",
        replace(AUTO_SONG, costs=STEEP, sampling=HOT, seed=223),
    ),
    ("auto_none", "no fixed token pays", replace(AUTO_SONG, costs=DEAR, sampling=HOT, seed=228)),
    (
        "auto_copies",
        "copies that are cut count as they are",
        replace(
            AUTO_SONG,
            sampling=HOT,
            seed=224,
            max_new_tokens=40,
            prompt=TOY.t("S FLAKE O LA KE FO FLAKE O LA KE FLAKE O"),
        ),
    ),
    (
        "auto_lookup",
        "mode lookup",
        replace(
            AUTO_SONG,
            mode="lookup",
            sampling=HOT,
            seed=225,
            prompt=TOY.t("S FLAKE O LA KE FO FLAKE O LA KE FLAKE O"),
        ),
    ),
]


def write(writer: VectorWriter) -> None:
    vectors = [generation(name, why, [settled(task)]) for name, why, task in CASES]
    begun = settled(replace(AUTO_SONG, costs=None, sampling=HOT, seed=231))
    texts = [begun, replace(begun, prompt=TOY.t("S LA"), draft_prompt=TOY.d("s la"), seed=begun.seed + 1)]
    vectors.append(generation("session", "two texts in one session: each begins the grammar anew", texts))
    writer.vectors("grammar/generate", "texts", vectors)
