"""Build the vocabulary map of two tokenizers: which tokens write which, byte for byte (method section 2)."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.errors import ExportError, VocabMapError
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.text_steps import byte_letters
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.runtime.vocab.vocab_map import Ragged, VocabMap

# Names of the end token in several families; used where a checkpoint's config does not name it.
EOS_NAMES = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "</s>")


@dataclass(frozen=True)
class Roles:
    """Control tokens that mean the same to both models, as (drafter id, target id) pairs."""

    pairs: tuple[tuple[int, int], ...] = ()

    def overruled_by(self, named: Sequence[tuple[int, int]]) -> "Roles":
        """These roles and the user's pairs; the user's pair of a token replaces the pair of these roles."""
        taken = {d for d, _ in named}, {t for _, t in named}
        return Roles((*(p for p in self.pairs if p[0] not in taken[0] and p[1] not in taken[1]), *named))


def byte_vocabulary() -> LibraryTokenizer:
    """The vocabulary of a bundle without a drafter: the id of a byte is its value (`NO_DRAFTER`)."""
    letters = {letter: byte for byte, letter in enumerate(byte_letters())}
    spelled = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return LibraryTokenizer(
        {
            "model": {"type": "BPE", "vocab": letters, "merges": []},
            "pre_tokenizer": spelled,
            "decoder": spelled,
            "added_tokens": [],
        },
        "the bytes",
    )


def guess_roles(
    drafter: Tokenizer, target: Tokenizer, ends: tuple[Sequence[int], Sequence[int]] = ((), ())
) -> Roles:
    """Pair the end tokens and the start tokens by the well-known names of the families.

    Args:
        ends: the end ids that the two configurations name; where both name some, the first ones are a pair.
    """
    eos = [next((t.controls[n].id for n in EOS_NAMES if n in t.controls), None) for t in (drafter, target)]
    starts = [t.controls.get(t.adds_bos or "") for t in (drafter, target)]
    bos = [None if start is None else start.id for start in starts]
    pairs: list[tuple[int, int]] = []
    for d, t in (eos, bos):
        # A family may use one token for end and start; the end is the role that matters.
        if d is not None and t is not None and not any(d == a or t == b for a, b in pairs):
            pairs.append((d, t))
    if all(ends):
        rest = [(d, t) for d, t in pairs if d not in ends[0] and t not in ends[1]]
        pairs = [(ends[0][0], ends[1][0]), *rest]
    return Roles(tuple(pairs))


def read_pairs(drafter: Tokenizer, target: Tokenizer, pairs: Sequence[str]) -> list[tuple[int, int]]:
    """(drafter id, target id) of each `DRAFTER=TARGET`, both control tokens by their content."""
    ids: list[tuple[int, int]] = []
    for pair in pairs:
        # A token may contain "=": try each "=" until both sides are tokens.
        cuts = [(pair[:i], pair[i + 1 :]) for i, letter in enumerate(pair) if letter == "="]
        names = next(((d, t) for d, t in cuts if d in drafter.controls and t in target.controls), None)
        if names is None:
            raise ExportError(
                f'pair "{pair}" does not name a control token of each model as DRAFTER=TARGET',
                f"the drafter has {_names(drafter)}, the target has {_names(target)}",
            )
        d, t = drafter.controls[names[0]].id, target.controls[names[1]].id
        if any(d == a or t == b for a, b in ids):
            raise ExportError(
                f'pair "{pair}" names a control token that is in another pair', "give each once"
            )
        ids.append((d, t))
    return ids


def _names(tokenizer: Tokenizer) -> str:
    return ", ".join(sorted(tokenizer.controls)[:40]) or "none"


def build_vocab_map(
    drafter: Tokenizer,
    target: Tokenizer,
    *,
    draft_size: int | None = None,
    target_size: int | None = None,
    roles: Roles | None = None,
) -> VocabMap:
    """Compare two vocabularies as bytes.

    Args:
        draft_size, target_size: width of the models' logits; None for the number of ids of the tokenizer.
        roles: control tokens that mean the same; None to guess them from their names.
    """
    draft_size = check_width(draft_size, drafter, "drafter")
    target_size = check_width(target_size, target, "target")
    roles = guess_roles(drafter, target) if roles is None else roles
    draft_of, target_of = _canonical(drafter), _canonical(target)
    pairs = {target_of[data]: d for data, d in draft_of.items() if data in target_of}
    pairs |= {t: d for d, t in roles.pairs}
    spellings = _spellings(drafter, target, pairs, draft_of)
    spellings += [[]] * (target_size - len(target))
    direct = np.full(draft_size, -1, dtype=np.int32)
    for t, d in pairs.items():
        direct[d] = t
    expansions: list[Sequence[int]] = [[]] * draft_size
    for d, data in enumerate(drafter.tokens):
        if data and direct[d] < 0 and data not in target_of:
            expansions[d] = target.spell(data) or []
    in_trie = {*target_of.values(), *pairs}
    leaves = sorted((t for t in in_trie if spellings[t]), key=lambda t: tuple(spellings[t]))
    for a, b in itertools.pairwise(leaves):
        assert tuple(spellings[a]) != tuple(spellings[b]), f"target tokens {a} and {b} share a spelling"
    allowed = np.zeros(draft_size, dtype=np.bool_)
    allowed[[d for d, data in enumerate(drafter.tokens) if data]] = True
    allowed[[d for d, _ in roles.pairs]] = True
    written = [token or b"" for token in target.tokens] + [b""] * (target_size - len(target))
    return VocabMap(
        target_bytes=_ragged(written, np.uint8),
        direct=direct,
        spellings=_ragged(spellings),
        expansions=_ragged(expansions),
        leaves=np.array(leaves, dtype=np.int32),
        draft_allowed=allowed,
        draft_fingerprint=drafter.fingerprint,
        target_fingerprint=target.fingerprint,
    )


def _spellings(
    drafter: Tokenizer, target: Tokenizer, pairs: Mapping[int, int], draft_of: Mapping[bytes, int]
) -> list[Sequence[int]]:
    """The draft tokens that write each target token; empty where the drafter cannot write it."""
    spellings: list[Sequence[int]] = []
    for t, data in enumerate(target.tokens):
        if t in pairs:
            spellings.append([pairs[t]])
        elif data:
            # An alias has the bytes of a direct pair: the drafter writes it with the token of that pair.
            spellings.append([draft_of[data]] if data in draft_of else (drafter.spell(data) or []))
        else:
            spellings.append([])
    return spellings


def _canonical(tokenizer: Tokenizer) -> dict[bytes, int]:
    """The id of each byte string.

    If several ids have the same bytes, the id that the tokenizer itself writes is used, else the lowest.
    Example: Llama-2 has `A` twice, as <0x41> (the lower id, which it never emits) and as a piece.
    """
    groups: dict[bytes, list[int]] = {}
    for i, data in enumerate(tokenizer.tokens):
        if data:
            groups.setdefault(data, []).append(i)
    canonical = {}
    for data, ids in groups.items():
        own = tokenizer.spell(data) if len(ids) > 1 else None
        canonical[data] = own[0] if own is not None and len(own) == 1 else ids[0]
    return canonical


def check_width(size: int | None, tokenizer: Tokenizer, role: str) -> int:
    """The width of a model's logits; the number of ids of its tokenizer when `size` is None."""
    if size is not None and size < len(tokenizer):
        raise VocabMapError(
            f"the {role}'s logits are {size} wide but its tokenizer has {len(tokenizer)} ids",
            "use the tokenizer of that model",
        )
    return size or len(tokenizer)


def _ragged(rows: Sequence[Sequence[int]], kind: type[np.generic] = np.int32) -> Ragged:
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum([len(r) for r in rows], out=offsets[1:])
    return Ragged(np.fromiter(itertools.chain.from_iterable(rows), kind, int(offsets[-1])), offsets)
