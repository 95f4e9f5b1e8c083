"""Two small vocabularies, the map between them, and which of its n-grams are active."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[int, ...]  # draft tokens from the root of the trie


@dataclass(frozen=True)
class Words:
    """A vocabulary map, written by names.

    Attributes:
        draft: names of the draft tokens. control: those that the drafter may not propose.
        target: names of the target tokens, whose bytes are the name (none for `<...>`), unless given.
        spelled: how each target token is written, by names; absent: nothing writes it.
        aliases: target tokens that are spelled and not in the trie, because another one stands for them.
        expanded: the target tokens that write a longer draft token.
    """

    draft: Sequence[str]
    target: Sequence[str]
    spelled: dict[str, str]
    control: Sequence[str] = ()
    aliases: Sequence[str] = ()
    expanded: dict[str, str] | None = None
    written: dict[str, str] | None = None  # hexadecimal bytes of target tokens that no name can have

    def d(self, names: str) -> list[int]:
        """Draft ids of names with spaces between."""
        return [self.draft.index(n) for n in names.split()]

    def t(self, names: str) -> list[int]:
        """Target ids of names with spaces between."""
        return [self.target.index(n) for n in names.split()]

    def spelling(self, target: int) -> Path:
        return tuple(self.d(self.spelled.get(self.target[target], "")))

    def spoken(self, target: int) -> bytes:
        name = self.target[target]
        if self.written and name in self.written:
            return bytes.fromhex(self.written[name])
        return b"" if name.startswith("<") and name.endswith(">") else name.encode()

    @property
    def leaves(self) -> list[int]:
        """Target ids of the trie by their spelling."""
        found = [t for t, n in enumerate(self.target) if n in self.spelled and n not in self.aliases]
        return sorted(found, key=self.spelling)

    @property
    def direct(self) -> list[int]:
        """The target token of each draft token that writes one alone, else -1."""
        pairs = {self.spelling(t): t for t in self.leaves}
        return [pairs.get((d,), -1) for d in range(len(self.draft))]

    def expansion(self, draft: int) -> list[int]:
        return self.t((self.expanded or {}).get(self.draft[draft], ""))

    def as_json(self) -> dict[str, object]:
        """The tables of spec/bundle.md, with the names to read them by."""
        return {
            "draft": list(self.draft),
            "target": list(self.target),
            "target_bytes": [self.spoken(t).hex() for t in range(len(self.target))],
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

    def __init__(self, words: Words, active: Sequence[int] = ()) -> None:
        self.words = words
        chosen = [t for t in words.leaves if len(words.spelling(t)) == 1 or t in active]
        self._spelled = [(words.spelling(t), t) for t in chosen]  # by spelling

    def below(self, path: Path) -> list[int]:
        """Target tokens whose spelling begins so, by spelling."""
        return [t for s, t in self._spelled if s[: len(path)] == path]

    def ending(self, path: Path) -> int | None:
        """The target token that is spelled so."""
        return next((t for s, t in self._spelled if s == path), None)

    def children(self, path: Path) -> list[int]:
        """Draft tokens that some spelling goes on with, ascending."""
        return sorted({s[len(path)] for s, _ in self._spelled if s[: len(path)] == path != s})

    def unspelled(self) -> list[int]:
        """Target tokens that nothing spells now, ascending."""
        return sorted(set(range(len(self.words.target))) - {t for _, t in self._spelled})


TOY = Words(
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

DEEP = Words(  # n-grams that begin with one another, and beginnings that are no token
    draft=["a", "b", "c", "d", "e"],
    target=["A", "AB", "ABC", "ABCD", "DE", "B", "E", "CCC", "X"],
    spelled={
        "A": "a", "AB": "a b", "ABC": "a b c", "ABCD": "a b c d", "DE": "d e", "B": "b", "E": "e",
        "CCC": "c c c",
    },
)  # fmt: skip

SNOW = Words(  # the worked example of arXiv 2507.02659
    draft=["Snow", "f", "la", "ke", "is", "in"],
    target=["Snow", "f", "la", "ke", "is", "flake", "s"],
    spelled={"Snow": "Snow", "f": "f", "la": "la", "ke": "ke", "is": "is", "flake": "f la ke"},
)

WORKED = Words(  # the worked example of spec/speculation.md, section 7
    draft=["f", "la", "ke", "o"],
    target=["F", "LA", "KE", "O", "FLAKE", "X"],
    spelled={"F": "f", "LA": "la", "KE": "ke", "O": "o", "FLAKE": "f la ke"},
)

HALVES = Words(  # characters of three bytes, their halves as tokens of either side, and a longer draft token
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

MAPS = {"worked": WORKED, "toy": TOY, "deep": DEEP, "snow": SNOW, "halves": HALVES}
