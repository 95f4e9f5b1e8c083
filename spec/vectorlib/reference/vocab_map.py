"""A vocabulary map of two small vocabularies, and the trie of its active spellings: spec/03-bundle.md."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[int, ...]  # draft tokens from the root of the trie


@dataclass(frozen=True)
class VocabMap:
    """A vocabulary map, written by names.

    Attributes:
        draft: names of the draft tokens.
        target: names of the target tokens; the bytes of a token are its name (none for `<...>`).
        spelled: the spelling of each target token, by names; a token that is absent has none.
        control: draft tokens that the drafter may not propose.
        aliases: target tokens with a spelling that are not in the trie: another token has the same bytes.
        expanded: the target tokens that write a longer draft token.
        written: hexadecimal bytes of target tokens whose bytes are not a name.
    """

    draft: Sequence[str]
    target: Sequence[str]
    spelled: dict[str, str]
    control: Sequence[str] = ()
    aliases: Sequence[str] = ()
    expanded: dict[str, str] | None = None
    written: dict[str, str] | None = None

    def d(self, names: str) -> list[int]:
        """Draft ids of names separated by spaces."""
        return [self.draft.index(n) for n in names.split()]

    def t(self, names: str) -> list[int]:
        """Target ids of names separated by spaces."""
        return [self.target.index(n) for n in names.split()]

    def spelling(self, target: int) -> Path:
        return tuple(self.d(self.spelled.get(self.target[target], "")))

    def bytes_of(self, target: int) -> bytes:
        name = self.target[target]
        if self.written and name in self.written:
            return bytes.fromhex(self.written[name])
        return b"" if name.startswith("<") and name.endswith(">") else name.encode()

    @property
    def leaves(self) -> list[int]:
        """Target ids of the trie, sorted by their spelling."""
        leaves = [t for t, n in enumerate(self.target) if n in self.spelled and n not in self.aliases]
        return sorted(leaves, key=self.spelling)

    @property
    def direct(self) -> list[int]:
        """The target token of each draft token of a direct pair, else -1."""
        pairs = {self.spelling(t): t for t in self.leaves}
        return [pairs.get((d,), -1) for d in range(len(self.draft))]

    def expansion(self, draft: int) -> list[int]:
        return self.t((self.expanded or {}).get(self.draft[draft], ""))

    def as_json(self) -> dict[str, object]:
        """The tables of spec/03-bundle.md, with the names of the tokens."""
        return {
            "draft": list(self.draft),
            "target": list(self.target),
            "target_bytes": [self.bytes_of(t).hex() for t in range(len(self.target))],
            "direct": self.direct,
            "spellings": [list(self.spelling(t)) for t in range(len(self.target))],
            "expansions": [self.expansion(d) for d in range(len(self.draft))],
            "leaves": self.leaves,
            "draft_allowed": [int(n not in self.control) for n in self.draft],
            "draft_fingerprint": "dd" * 32,
            "target_fingerprint": "ee" * 32,
        }


class Trie:
    """The spellings of the direct pairs and of the active n-grams."""

    def __init__(self, vocab_map: VocabMap, active: Sequence[int] = ()) -> None:
        self.vocab_map = vocab_map
        leaves = [t for t in vocab_map.leaves if len(vocab_map.spelling(t)) == 1 or t in active]
        self._spelled = [(vocab_map.spelling(t), t) for t in leaves]  # sorted by spelling

    def below(self, path: Path) -> list[int]:
        """Target tokens whose spelling begins with a path, sorted by spelling."""
        return [t for s, t in self._spelled if s[: len(path)] == path]

    def ending(self, path: Path) -> int | None:
        """The target token whose spelling is the path."""
        return next((t for s, t in self._spelled if s == path), None)

    def children(self, path: Path) -> list[int]:
        """Draft tokens that lead on from a path in some spelling, ascending."""
        return sorted({s[len(path)] for s, _ in self._spelled if s[: len(path)] == path != s})

    def unspelled(self) -> list[int]:
        """Target tokens without an active spelling, ascending."""
        return sorted(set(range(len(self.vocab_map.target))) - {t for _, t in self._spelled})


TOY = VocabMap(
    draft=["s", "f", "la", "ke", "o", "i", "sfo", "#", "</s>"],
    target=["S", "F", "LA", "KE", "O", "FLAKE", "FO", "FLAS", "X", "LAKE", "F'", "<eos>", "<think>"],
    spelled={
        "S": "s", "F": "f", "LA": "la", "KE": "ke", "O": "o", "FLAKE": "f la ke", "FO": "f o",
        "FLAS": "f la s", "LAKE": "la ke", "F'": "f", "<eos>": "</s>",
    },
    control=["#", "</s>"],
    aliases=["F'"],
    expanded={"sfo": "S F O"},
)  # fmt: skip

DEEP = VocabMap(  # n-grams that are prefixes of one another, and prefixes that are not a token
    draft=["a", "b", "c", "d", "e"],
    target=["A", "AB", "ABC", "ABCD", "DE", "B", "E", "CCC", "X"],
    spelled={
        "A": "a", "AB": "a b", "ABC": "a b c", "ABCD": "a b c d", "DE": "d e", "B": "b", "E": "e",
        "CCC": "c c c",
    },
)  # fmt: skip

SNOW = VocabMap(  # the worked example of arXiv 2507.02659
    draft=["Snow", "f", "la", "ke", "is", "in"],
    target=["Snow", "f", "la", "ke", "is", "flake", "s"],
    spelled={"Snow": "Snow", "f": "f", "la": "la", "ke": "ke", "is": "is", "flake": "f la ke"},
)

WORKED = VocabMap(  # the worked example of spec/04-speculation.md, section 7
    draft=["f", "la", "ke", "o"],
    target=["F", "LA", "KE", "O", "FLAKE", "X"],
    spelled={"F": "f", "LA": "la", "KE": "ke", "O": "o", "FLAKE": "f la ke"},
)

HALVES = VocabMap(  # characters of three bytes, their halves as tokens, and a longer draft token
    draft=["e3", "81", "82", "84", "あ", "a", "b", "ab!", "</s>"],
    target=["あ", "e381", "い", "82", "84", "a", "b", "ab", "!", "<eos>", "<think>"],
    spelled={
        "あ": "あ", "e381": "e3 81", "い": "e3 81 84", "82": "82", "84": "84", "a": "a", "b": "b",
        "ab": "a b", "<eos>": "</s>",
    },
    control=["</s>"],
    expanded={"ab!": "ab !"},
    written={"e381": "e381", "82": "82", "84": "84"},
)  # fmt: skip

LONG = VocabMap(  # the longest spelling that the n-gram cache takes, and one that is too long
    draft=["a", "b"],
    target=["A", "B", "A255", "A256", "AB", "AB'"],
    spelled={"A": "a", "B": "b", "A255": "a " * 255, "A256": "a " * 256, "AB": "a b", "AB'": "a b"},
    aliases=["AB'"],
)

BEGUN = VocabMap(  # a draft token that is longer than a target token, and begins the spelling of another
    draft=["a", "b", "ab", "c"],
    target=["A", "B", "C", "ABC", "CAB"],
    spelled={"A": "a", "B": "b", "C": "c", "ABC": "ab c", "CAB": "c ab"},
    expanded={"ab": "A B"},
)

WIDE = VocabMap(  # more ids than a trace keeps
    draft=[f"d{i}" for i in range(70)],
    target=[f"t{i}" for i in range(70)],
    spelled={f"t{i}": f"d{i}" for i in range(70)},
)

MAPS = {
    "worked": WORKED, "toy": TOY, "deep": DEEP, "snow": SNOW, "halves": HALVES, "long": LONG, "wide": WIDE,
    "begun": BEGUN,
}  # fmt: skip
