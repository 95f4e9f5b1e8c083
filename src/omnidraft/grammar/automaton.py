"""Automata of bytes from expressions: subset construction, intersection, difference, and rules with a stack.

An automaton reads one byte after another. A state of it may also call a rule: the byte is then the first of
the rule's text, and the state to return to waits on a stack until the rule has ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from omnidraft.grammar.budget import Budget, check_size
from omnidraft.grammar.expression import (
    Alternatives,
    Call,
    Concatenation,
    Embedded,
    Expression,
    Listing,
    OneOf,
    Repetition,
)

DEAD = -1
_FEW = 4


@dataclass
class Automaton:
    """A deterministic automaton; state 0 is its start.

    Attributes:
        edges: by state, the next state by byte.
        accepting: the states in which a text may end.
        calls: by state, the state to return to by the name of each rule that is called there.
    """

    edges: list[dict[int, int]]
    accepting: set[int]
    calls: list[dict[str, int]]


@dataclass
class _Nfa:
    """An automaton that may be in many states at once."""

    budget: Budget
    edges: list[list[tuple[int, int]]] = field(default_factory=list)  # (set of bytes, state)
    silent: list[list[int]] = field(default_factory=list)
    calls: list[tuple[str, int] | None] = field(default_factory=list)

    def state(self) -> int:
        self.budget.spend(1)
        self.edges.append([])
        self.silent.append([])
        self.calls.append(None)
        return len(self.edges) - 1

    def add(self, part: Expression, start: int) -> int:
        """Build an expression behind a state; returns the state behind it."""
        if isinstance(part, Concatenation):
            for each in part.parts:
                start = self.add(each, start)
            return start
        if isinstance(part, Repetition):
            return self._repeat(part, start)
        if isinstance(part, Listing):
            return self._chain(part, start)
        end = self.state()
        if isinstance(part, OneOf):
            self.edges[start].append((part.bytes, end))
        elif isinstance(part, Alternatives):
            for each in part.parts:
                begin = self.state()
                self.silent[start].append(begin)
                self.silent[self.add(each, begin)].append(end)
        elif isinstance(part, Call):
            begin = self.state()
            self.silent[start].append(begin)
            self.calls[begin] = part.rule, end
        else:
            self._embed(part.automaton, start, end)
        return end

    def _repeat(self, repeat: Repetition, start: int) -> int:
        if max(repeat.least, repeat.most or 0) > _FEW:
            repeat = Repetition(compact(repeat.part, self.budget), repeat.least, repeat.most)
        for _ in range(repeat.least):
            start = self.add(repeat.part, start)
        if repeat.most is None:
            loop, end = self.state(), self.state()
            self.silent[start].append(loop)
            self.silent[loop].append(end)
            self.silent[self.add(repeat.part, loop)].append(loop)
            return end
        end = self.state()
        for _ in range(repeat.most - repeat.least):
            self.silent[start].append(end)
            start = self.add(repeat.part, start)
        self.silent[start].append(end)
        return end

    def _chain(self, chain: Listing, start: int) -> int:
        top = max(1, chain.least) if chain.most is None else chain.most  # stands for larger counts if endless
        at, end = {0: start}, self.state()  # the state by the count so far
        for item, is_required in chain.items:
            behind: dict[int, int] = {}
            begins: dict[int, int] = {}  # by the count behind the item
            for count, state in at.items():
                if not is_required:
                    behind[count] = self.state()
                    self.silent[state].append(behind[count])
                if chain.most is None or count < top:
                    to = min(count + 1, top)
                    begins[to] = begins.get(to) or self.state()
                    self.silent[self.add(chain.separator, state) if count else state].append(begins[to])
            for count, begin in begins.items():
                behind[count] = behind.get(count) or self.state()
                self.silent[self.add(item, begin)].append(behind[count])
            at = behind
        for count, state in at.items():
            if count >= chain.least:
                self.silent[state].append(end)
        if chain.rest is not None:
            self._add_rest(chain, chain.rest, {c: s for c, s in at.items() if c + 1 >= chain.least}, end)
        return end

    def _add_rest(self, chain: Listing, rest: Expression, at: Mapping[int, int], end: int) -> None:
        """What may follow the items that end in some states, by their count."""
        if chain.most is None:
            begin = self.state()
            for count, state in at.items():
                self.silent[self.add(chain.separator, state) if count else state].append(begin)
            after = self.add(rest, begin)
            self.silent[after].append(end)
            self.silent[self.add(chain.separator, after)].append(begin)
            return
        rest = compact(rest, self.budget) if chain.most > _FEW else rest
        waiting = {count: [state] for count, state in at.items()}
        for count in range(chain.most):
            begin = self.state()
            for state in waiting.get(count, ()):
                self.silent[self.add(chain.separator, state) if count else state].append(begin)
            if waiting.get(count):
                after = self.add(rest, begin)
                self.silent[after].append(end)
                waiting.setdefault(count + 1, []).append(after)

    def _embed(self, automaton: Automaton, start: int, end: int) -> None:
        copies = [start, *(self.state() for _ in automaton.edges[1:])]
        if any(0 in row.values() for row in automaton.edges):  # the start is entered again
            copies[0] = self.state()
            self.silent[start].append(copies[0])
        for copy, edges in zip(copies, automaton.edges, strict=True):
            sets: dict[int, int] = {}
            for byte, to in edges.items():
                sets[to] = sets.get(to, 0) | 1 << byte
            self.edges[copy] += [(bytes_, copies[to]) for to, bytes_ in sets.items()]
        for state in automaton.accepting:
            self.silent[copies[state]].append(end)


def compile_expression(part: Expression, budget: Budget) -> Automaton:
    """The deterministic automaton of an expression, without states from which no text can be completed.

    Raises:
        GrammarError: it is too large, or a call cannot be told from what else could stand there.
    """
    nfa = _Nfa(budget)
    start = nfa.state()
    end = nfa.add(part, start)

    def closure(states: set[int]) -> frozenset[int]:
        found = _reached(states, nfa.silent.__getitem__)
        budget.spend(len(found))
        return frozenset(s for s in found if nfa.edges[s] or nfa.calls[s] or s == end)

    numbers: dict[frozenset[int], int] = {}
    found: list[frozenset[int]] = []

    def number(states: frozenset[int]) -> int:
        if states not in numbers:
            check_size(len(found))
            numbers[states] = len(found)
            found.append(states)
        return numbers[states]

    number(closure({start}))
    edges: list[dict[int, int]] = []
    calls: list[dict[str, int]] = []
    while len(edges) < len(found):
        states = found[len(edges)]
        moves: dict[int, set[int]] = {}
        returns: dict[str, set[int]] = {}
        for state in states:
            for bytes_, to in nfa.edges[state]:
                budget.spend(1)
                for byte in _bits(bytes_):
                    moves.setdefault(byte, set()).add(to)
            if call := nfa.calls[state]:
                returns.setdefault(call[0], set()).add(call[1])
        known: dict[frozenset[int], int] = {}
        row = {}
        for byte, behind in moves.items():
            key = frozenset(behind)
            if key not in known:
                known[key] = number(closure(behind))
            row[byte] = known[key]
        edges.append(row)
        calls.append({rule: number(closure(behind)) for rule, behind in returns.items()})
    return Automaton(edges, {i for i, states in enumerate(found) if end in states}, calls)


def intersection(a: Automaton, b: Automaton, budget: Budget) -> Automaton:
    """The texts of both of two automata without calls."""
    return _product(a, b, budget, in_second=True)


def difference(a: Automaton, b: Automaton, budget: Budget) -> Automaton:
    """The texts of the first of two automata without calls that are no texts of the second."""
    return _product(a, b, budget, in_second=False)


def _product(a: Automaton, b: Automaton, budget: Budget, *, in_second: bool) -> Automaton:
    numbers = {(0, 0): 0}
    found = [(0, 0)]
    edges: list[dict[int, int]] = []
    while len(edges) < len(found):
        p, q = found[len(edges)]
        row = {}
        budget.spend(len(a.edges[p]))
        for byte, to in a.edges[p].items():
            other = b.edges[q].get(byte, DEAD) if q != DEAD else DEAD
            if other == DEAD and in_second:
                continue
            pair = to, other
            if pair not in numbers:
                check_size(len(found))
                numbers[pair] = len(found)
                found.append(pair)
            row[byte] = numbers[pair]
        edges.append(row)
    accepting = {i for i, (p, q) in enumerate(found) if p in a.accepting and (q in b.accepting) == in_second}
    return trimmed(Automaton(edges, accepting, [{} for _ in edges]))


def compact(part: Expression, budget: Budget) -> Expression:
    """The same with a small automaton where that is possible, for what is added many times."""
    if isinstance(part, Embedded):
        return part
    once = compile_expression(part, budget)
    return part if any(once.calls) else Embedded(_minimal(once, budget))


def _minimal(automaton: Automaton, budget: Budget) -> Automaton:
    """The smallest automaton of the same texts, without calls (Moore, 1956)."""
    numbered = [int(state in automaton.accepting) for state in range(len(automaton.edges))]
    while True:
        budget.spend(sum(map(len, automaton.edges)))
        seen: dict[object, int] = {}
        after = []
        for state, row in enumerate(automaton.edges):
            key = numbered[state], tuple(sorted((byte, numbered[to]) for byte, to in row.items()))
            after.append(seen.setdefault(key, len(seen)))
        if len(seen) == len(set(numbered)):
            break
        numbered = after
    edges: list[dict[int, int]] = [{} for _ in seen]  # state 0 is in block 0
    for state, row in enumerate(automaton.edges):
        edges[after[state]] = {byte: after[to] for byte, to in row.items()}
    return Automaton(edges, {after[state] for state in automaton.accepting}, [{} for _ in edges])


def trimmed(automaton: Automaton) -> Automaton:
    """The automaton without states from which no text can be completed, where no rule is called."""
    before: dict[int, list[int]] = {}
    for state, row in enumerate(automaton.edges):
        for to in row.values():
            before.setdefault(to, []).append(state)
    alive = _reached(automaton.accepting, lambda state: before.get(state, ())) | {0}
    order = sorted(alive)
    numbers = {state: i for i, state in enumerate(order)}
    edges = [{b: numbers[t] for b, t in automaton.edges[s].items() if t in alive} for s in order]
    return Automaton(edges, {numbers[s] for s in automaton.accepting}, [{} for _ in order])


def _reached(states: set[int], moves: Callable[[int], Iterable[int]]) -> set[int]:
    """The states, and those to which moves lead from them."""
    found, waiting = set(states), list(states)
    while waiting:
        for to in moves(waiting.pop()):
            if to not in found:
                found.add(to)
                waiting.append(to)
    return found


def _bits(bytes_: int) -> Iterator[int]:
    while bytes_:
        low = bytes_ & -bytes_
        yield low.bit_length() - 1
        bytes_ ^= low
