"""The tokens that a grammar allows, and an output in it: spec/17-grammar.md."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from vectorlib.reference.draft_length import Costs
from vectorlib.reference.grammar import START, Configuration, Grammar
from vectorlib.reference.random_source import TooClose

INFINITE = 65_535
MOST_FIXED = 64  # tokens
Tokens = Sequence[bytes | None]


def hexadecimal(tokens: Tokens) -> list[str | None]:
    """The bytes of tokens as vectors have them."""
    return [None if token is None else token.hex() for token in tokens]


class TokenRules:
    """What a grammar allows in a vocabulary; `controls` is what outputs show of control tokens.

    With `spells`, fixed bytes are written as `spelled` writes them.
    """

    def __init__(
        self,
        grammar: Grammar,
        tokens: Tokens,
        eos_ids: Collection[int] = (),
        controls: Mapping[int, bytes] = MappingProxyType({}),
        *,
        spells: bool = True,
    ) -> None:
        self.grammar, self.tokens, self.eos_ids, self.controls = grammar, tokens, eos_ids, controls
        self.spells = spells
        self._longest = max((len(token) for token in tokens if token), default=0)
        self._bounds: dict[int, int] = {}

    def bound(self, at: Configuration) -> int:
        """Tokens of one way to complete the text."""
        return min(INFINITE, sum(self._state_bound(state) for state in (at[0], *at[1])))

    def allowed(self, at: Configuration, room: int) -> set[int]:
        """The ids that may come next, end tokens among them."""
        fitting = self._with_bytes(at, room)
        ends = set(self.eos_ids) if self.grammar.is_complete(at) else set[int]()
        return (fitting & self._own(at)) or fitting | ends

    def certain(self, at: Configuration) -> int | None:
        """The only token that may write the fixed bytes; None where there are more, or none are fixed."""
        alone = self.allowed(at, INFINITE) if self._own(at) else set[int]()
        return min(alone) if len(alone) == 1 else None

    def _own(self, at: Configuration) -> set[int]:
        """The first token of the spelling of the fixed bytes, and the tokens that reach beyond these."""
        data, shown = self.grammar.fixed(at), self.controls.values()
        ids = spelled(data, self.tokens) if self.spells else []
        if not ids or (at == START and any(self.grammar.read(at, each) for each in shown)):
            return set()
        longer = {t for t, each in enumerate(self.tokens) if each and len(each) > len(data)}
        return {ids[0]} | {t for t in longer if (self.tokens[t] or b"").startswith(data)}

    def silent(self, at: Configuration, room: int, width: int) -> set[int]:
        """The ids without bytes, other than end tokens, that may come next."""
        free = self.grammar.is_free(at)
        if not (free or at == START):
            return set()
        shown = {t: self.grammar.read(at, data) for t, data in self.controls.items()}
        fitting = {t for t, to in shown.items() if to is not None and self.bound(to) < min(room, INFINITE)}
        without = {t for t in range(width) if t >= len(self.tokens) or not self.tokens[t]}
        return fitting | (without - self.controls.keys() if free else set())

    def is_last(self, at: Configuration, room: int) -> bool:
        """Whether the text is complete and no token with bytes may follow."""
        return self.grammar.is_complete(at) and not self._with_bytes(at, room or INFINITE)

    def _with_bytes(self, at: Configuration, room: int) -> set[int]:
        behind = {t: self.grammar.read(at, token) for t, token in enumerate(self.tokens)}
        return {t for t, to in behind.items() if to is not None and self.bound(to) < min(room, INFINITE)}

    def _state_bound(self, state: int) -> int:
        if state not in self._bounds:
            self._bounds[state] = 0 if self.grammar.accepting[state] else self._of_way(state)
        return self._bounds[state]

    def _of_way(self, state: int) -> int:
        """The least over the places on the way to which a token leads."""
        grammar = self.grammar
        byte, at, back = grammar.nearest(state)
        way, behind, least = bytes([byte]), 0 if back is None else self._state_bound(back), INFINITE
        while len(way) <= self._longest:
            if way in self.tokens:
                least = min(least, 1 + self._state_bound(at))
            if grammar.accepting[at]:
                break
            byte, at, back = grammar.nearest(at)
            if back is not None:
                break
            way += bytes([byte])
        return min(INFINITE, least + behind)


@dataclass(frozen=True)
class Language:
    """A grammar, and the bytes of the tokens that its texts are written with.

    Attributes:
        file: the name of its file in the vectors.
    """

    file: str
    grammar: Grammar
    target_tokens: Tokens
    draft_tokens: Tokens

    def as_json(self) -> dict[str, object]:
        """The fields of a vector."""
        tokens = {"target_tokens": self.target_tokens, "draft_tokens": self.draft_tokens}
        return {"grammar": self.file, **{name: hexadecimal(each) for name, each in tokens.items()}}


class GrammarText:
    """An output in a grammar, while it is generated.

    Attributes:
        at: where it is.
        is_complete: whether it has ended, for the reason `complete`.
    """

    def __init__(self, language: Language, eos_ids: Collection[int], *, proposes: bool) -> None:
        drafts = TokenRules(language.grammar, language.draft_tokens, spells=False)
        self._rules = TokenRules(language.grammar, language.target_tokens, eos_ids)
        self._drafts = drafts if proposes and drafts.bound(START) < INFINITE else None
        self._proposes, self._tried, self._right = proposes, 10, 9
        self._fixing, self._others = 0, 0  # rounds
        self.at: Configuration = START
        self.is_complete = False

    def fixed(self, costs: Costs | None) -> tuple[list[int], int]:
        """The tokens of the fixed bytes that are proposed, and how many of them are certain.

        All of them are proposed where no costs are given.
        """
        tokens, at = list[int](), self.at
        while self._proposes and len(tokens) < MOST_FIXED and (token := self._rules.certain(at)) is not None:
            tokens.append(token)
            at = self._rules.grammar.read(at, self._rules.tokens[token]) or START
        count = len(tokens)
        if self._proposes:
            tokens += spelled(self._rules.grammar.fixed(at), self._rules.tokens)
        tokens = self.valid(tokens[:MOST_FIXED])
        if costs is None or not tokens:
            return tokens, count
        share = min(1.0, self._right / self._tried)
        seconds = [costs.of_pass(1), *(costs.of_pass(n + 1) + costs.host for n in range(1, len(tokens) + 1))]
        speeds = [
            (count + sum(share**i for i in range(n - count + 1))) / seconds[n]
            for n in range(count, len(tokens) + 1)
        ]
        best = max(speeds)
        if any(0 < best - speed < 1e-9 * best for speed in speeds):
            raise TooClose(f"speeds {speeds}")
        return tokens[: count + speeds.index(best)], count

    def repaid(self, usual: float, *, fixes: bool) -> float:
        """Rounds that the time of reading is spread over; fixes: whether this round proposes fixed tokens."""
        self._fixing += fixes
        self._others += not fixes
        return self._others / self._fixing if self._fixing else usual

    def learn(self, right: int, proposed: int, certain: int) -> None:
        """After a round that proposed fixed tokens: how many of them were right, and how many certain."""
        self._right += max(0, right - certain)
        self._tried += max(0, min(right + 1, proposed) - certain)

    def valid(self, tokens: Sequence[int]) -> list[int]:
        """The first tokens, as far as they stay in the grammar."""
        ends = self._behind(self.at, tokens, self._rules)
        return list(tokens[: len([end for end in ends[1:] if end is not None])])

    def allowed(self, proposed: Sequence[int], room: int) -> list[set[int] | None]:
        """What may follow 0, 1, ... proposed tokens; None: all, since the output ends before."""
        ends = self._behind(self.at, proposed, self._rules)
        rows = [None if end is None else self._rules.allowed(end, room - i) for i, end in enumerate(ends)]
        return [row or None for row in rows]

    def may_draft(self, drafted: Sequence[int], size: int) -> set[int]:
        """Draft ids that may follow drafted ones; size: number of all draft ids."""
        if self._drafts is None:
            return set(range(size))
        end = self._behind(self.at, drafted, self._drafts)[-1]
        return set() if end is None else self._drafts.allowed(end, INFINITE)

    def go_on(self, emitted: list[int], room: int) -> list[int]:
        """The emitted tokens up to the one behind which none follows."""
        for i, end in enumerate(self._behind(self.at, emitted, self._rules)[1:]):
            if end is None:
                return emitted[: i + 1]
            self.at = end
            self.is_complete = self._rules.is_last(end, room - i - 1)
            if self.is_complete:
                return emitted[: i + 1]
        return emitted

    def _behind(
        self, at: Configuration | None, tokens: Sequence[int], rules: TokenRules
    ) -> list[Configuration | None]:
        """The configurations behind 0, 1, ... tokens."""
        ends = [at]
        for token in tokens:
            ends.append(None if ends[-1] is None else rules.grammar.read(ends[-1], rules.tokens[token]))
        return ends


def spelled(data: bytes, tokens: Tokens) -> list[int]:
    """The longest tokens from the left; nothing where they cannot write the bytes."""
    ids = list[int]()
    while data:
        fitting = [t for t, token in enumerate(tokens) if token and data.startswith(token)]
        if not fitting:
            return []
        ids.append(max(fitting, key=lambda t: (len(tokens[t] or b""), -t)))
        data = data[len(tokens[ids[-1]] or b"") :]
    return ids
