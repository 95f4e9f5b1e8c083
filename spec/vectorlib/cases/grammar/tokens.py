"""Vectors of `grammar/tokens`: which tokens may come next, bounds, and fixed bytes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vectorlib.cases.grammar.grammars import GRAMMARS
from vectorlib.reference.grammar import START
from vectorlib.reference.grammar_tokens import INFINITE, TokenRules, hexadecimal
from vectorlib.writer import VectorWriter, vector


def words(text: str) -> list[bytes | None]:
    """A vocabulary: tokens between spaces; `~` has no bytes."""
    return [None if word == "~" else word.encode() for word in text.split()]


LISTS = words("~ 1 [ ] , - { } < [[ ]] [1 1] [] 11 ]1 ],[ -[ --1 {[ [{ ]}] 1,1 x [<]{[]}] ~ [[[ <1]{ 1")
# name, why, grammar, vocabulary, end tokens, places; of a place: text before it, rooms beside the bound's
CASES: list[tuple[str, str, str, list[bytes | None], list[int], list[str]]] = [
    (
        "lists",
        "tokens across calls and returns; the end token 25 at complete places only",
        "lists",
        LISTS,
        [25],
        ["", "1", "[", "[1", "[1,", "[[", "[[1", "[-", "[-[", "{", "{[", "{[]", "[<", "[<]", "[<]{", "[1]"],
    ),
    (
        "shallow",
        "the same with a stack of two: tokens that nest more are not allowed",
        "shallow",
        LISTS,
        [25, 0],
        ["", "[", "[1,", "[[", "[-", "{[", "[[]"],
    ),
    ("flat", "a stack of one", "flat", LISTS, [], ["", "[", "[1"]),
    ("single", "bytes alone", "lists", words("1 [ ] , - { } <"), [], ["", "[", "[<", "[{[", "[-"]),
    (
        "class",
        "the nearest move is that of the lowest class, not of the lowest byte",
        "classes",
        words("z a b x y by"),
        [],
        ["", "a", "b"],
    ),
    ("byte", "a class is taken by its lowest byte", "bytes", words("az b a bx y ay z"), [], ["", "a", "z"]),
    (
        "lowest_byte",
        "no token has the lowest byte of the nearest class",
        "classes",
        words("z b x y"),
        [],
        [""],
    ),
    (
        "letters",
        "a text that is complete and goes on; two tokens of the same bytes",
        "letters",
        words("n o no on n ~"),
        [5],
        ["", "n", "no", "non"],
    ),
    (
        "way",
        "the fewest tokens of the way, not the longest first",
        "way",
        words("ab cd abc a bc"),
        [],
        ["", "a", "ab", "abc"],
    ),
    (
        "longest",
        "the way is looked at as far as the longest token, which is not on it",
        "way",
        words("a b cd zzzz"),
        [],
        ["", "ab"],
    ),
    (
        "call",
        "the way ends before a call; one that begins with a call goes on in the rule",
        "calls",
        words("x xy y ya yab a b bc c z cz xyabcz abcz"),
        [],
        ["", "x", "xy", "xya", "xyab", "xyabc"],
    ),
    ("cannot", "no token writes `d`", "way", words("ab c abc"), [], [""]),
    (
        "cannot_call",
        "only a token across a call could begin the text, and no bound knows it",
        "calls",
        words("xy a b c z xya"),
        [],
        [""],
    ),
    (
        "cannot_there",
        "a vocabulary that writes some texts only: a place that cannot be completed",
        "letters",
        words("no on"),
        [],
        ["", "n", "no"],
    ),
    (
        "open",
        "a complete text that goes on only with enough room",
        "open",
        words("S L A K E F O LA KE X"),
        [],
        ["", "S", "SL", "SLAKEFLAKEO"],
    ),
    ("open_end", "the same with an end token", "open", words("S L A K E F O LA KE ~"), [9], ["S"]),
    ("doubled", "no more than 4,096 fixed bytes", "doubled", words("a aa aaa"), [], ["", "a"]),
    ("too_long", "a bound of 65,535 is infinite", "too_long", words("a aa"), [], [""]),
    (
        "flatter",
        "the nearest move nests least, though another is shorter",
        "flatter",
        words("a b c d e cd bc ae"),
        [],
        ["", "b", "a"],
    ),
    (
        "own",
        "no room for the target's own spelling: any that fits",
        "way",
        words("d c a bcd ab"),
        [],
        ["", "a", "ab"],
    ),
    (
        "own_cannot",
        "the bound behind the own spelling is infinite",
        "calls",
        words("ya z c bc x abc xy"),
        [],
        ["", "x"],
    ),
    (
        "beyond",
        "a token that reaches beyond the fixed bytes is not allowed",
        "way",
        words("ab cd abcdz"),
        [],
        [""],
    ),
    ("empty", "only the end token", "empty", words("a ~"), [1], [""]),
    (
        "song",
        "fixed bytes up to a choice or the end",
        "song",
        words("S F L A K E O X"),
        [],
        ["", "SFL", "SFLAKE", "SFLAKEL", "SFLAKEX"],
    ),
    (
        "nest",
        "fixed bytes go into a rule and out of it",
        "nest",
        words("S LA KE O F L A K E"),
        [],
        ["", "S", "SLA", "SLAK", "SLAL", "SLALAKE", "SLAKE"],
    ),
]


FREE: list[bytes | None] = [
    b"<", b"t", b">", b"<t", b"<t>", b"a", b'[{"name": "', b"a<", b'f", "arguments": {}}]',
    None, None, None, None,
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    made = [_vector(*case) for case in CASES]
    texts = ["", "a", "a<", "<t", "<t>", '<t>[{"name": "f']
    why = "free places: tokens without bytes are allowed, and control tokens by what an output shows of them"
    made.append(_vector("free", why, "tools", FREE, [9], texts, {10: b"<t>", 11: b"<t>{"}))
    why = "at the start of a text that is not free, a control token by what an output shows of it"
    made.append(_vector("shown", why, "way", words("a b c d ~ ~"), [], ["", "a"], {4: b"ab", 5: b"b"}))
    writer.vectors("grammar/tokens", "tokens", made)


def _vector(
    name: str,
    why: str,
    file: str,
    tokens: list[bytes | None],
    eos_ids: list[int],
    texts: list[str],
    controls: Mapping[int, bytes] = MappingProxyType({}),
) -> dict[str, Any]:
    rules, width = TokenRules(GRAMMARS[file], tokens, eos_ids, controls), len(tokens) + 2
    given: dict[str, Any] = {"file": f"{file}.grammar", "tokens": hexadecimal(tokens), "width": width,
                             "eos_ids": eos_ids}  # fmt: skip
    if controls:
        given["controls"] = {str(t): data.hex() for t, data in controls.items()}
    if rules.bound(START) == INFINITE:
        return vector(name, why, given, {"fault": "vocabulary"})
    places, expected = [], []
    for text in texts:
        at = rules.grammar.read(START, text.encode("latin-1")) if text else START
        assert at is not None, (name, text)
        bound = rules.bound(at)
        expected.append({
            "bound": None if bound == INFINITE else bound,
            "fixed": rules.grammar.fixed(at).hex(),
            "certain": rules.certain(at),
            "last": rules.is_last(at, 0),
            "allowed": [
                [room, sorted(rules.allowed(at, room) | rules.silent(at, room, width)),
                 rules.is_last(at, room)]
                for room in _rooms(bound)
            ],
        })  # fmt: skip
        places.append(text.encode("latin-1").hex())
    return vector(name, why, {**given, "places": places}, {"places": expected})


def _rooms(bound: int) -> list[int]:
    near = [] if bound == INFINITE else [room for room in range(bound - 1, bound + 3) if room > 0]
    return [*near, 70_000]
