"""Scenes of `verify`: a draft, the distributions that it was drawn from, and the target's distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

TRIE = ("token", "block")
EXACT = ("token", "block", "match")
ALL = ("token", "block", "match", "paper")


@dataclass(frozen=True)
class Scene:
    """One situation; a distribution is written "name weight name weight".

    Attributes:
        q: the drafter's distribution at each draft token.
        p: the target's distribution after 0, 1, ... proposed tokens.
        rules: the verification rules that are run on the scene.
        uniforms: use these uniforms; without them the generator searches for every outcome.
    """

    name: str
    why: str
    map: str
    active: str
    draft: str
    q: Sequence[str]
    p: Sequence[str]
    rules: Sequence[str] = TRIE
    uniforms: Sequence[float] = ()


_Q = "s 0.2 f 0.4 la 0.1 ke 0.1 o 0.1 i 0.1"
_P = "S 0.1 F 0.1 LA 0.1 KE 0.1 O 0.1 FLAKE 0.2 FO 0.1 FLAS 0.1 X 0.1"

_WORKED_Q = ["f 0.5 la 0.2 ke 0.1 o 0.2", "f 0.1 la 0.6 ke 0.2 o 0.1", "f 0.2 la 0.2 ke 0.5 o 0.1"]
_WORKED_P = ["F 0.3 LA 0.1 KE 0.1 O 0.1 FLAKE 0.3 X 0.1", "X 1"]
_WORKED = [
    Scene(
        f"worked_{draft.replace(' ', '_')}_{uniform}", "the worked example of 04-speculation.md, section 7",
        "worked", "FLAKE", draft, _WORKED_Q, _WORKED_P, TRIE, (uniform, 0.1, 0.1),
    )
    for draft in ("f la ke", "f la o")
    for uniform in (0.5, 0.9)
]  # fmt: skip

SCENES = [
    *_WORKED,
    Scene(
        "no_draft", "nothing was drafted: a draw from p", "toy", "", "", [], ["S 0.5 X 0.5"], ALL,
    ),
    Scene(
        "unmapped", "a draft token that maps to nothing: a draw from p", "toy", "FLAKE", "i",
        ["i 0.5 s 0.5"], ["S 0.25 FLAKE 0.5 X 0.25"], ALL,
    ),
    Scene(
        "direct", "two direct pairs", "toy", "", "s la",
        ["s 0.5 f 0.25 i 0.25", "la 0.6 ke 0.4"],
        ["S 0.25 F 0.25 KE 0.25 X 0.25", "LA 0.3 KE 0.3 O 0.4", "S 0.5 O 0.5"], ALL,
    ),
    Scene(
        "renormalised", "i maps to nothing, so q is renormalised: 0.2 of 0.5", "toy", "", "s",
        ["s 0.2 f 0.3 i 0.5"], ["S 0.2 F 0.4 O 0.3 X 0.1", "X 1"],
    ),
    Scene(
        "alias", "F' and X have no active spelling: their mass is one option, with Q = 0", "toy", "", "f",
        ["f 0.8 s 0.2"], ["F 0.3 F' 0.4 X 0.2 <think> 0.1", "S 1"],
    ),
    Scene(
        "orphan", "an orphan control token may be drawn although nothing proposes it", "toy", "", "s",
        ["s 1"], ["S 0.25 <think> 0.75", "<eos> 0.5 S 0.5"], EXACT,
    ),
    Scene(
        "ngram", "f la ke is FLAKE: begin, go on, go on", "toy", "FLAKE FLAS FO", "f la ke",
        [_Q, "la 0.75 o 0.15 s 0.1", "ke 0.8 s 0.15 la 0.05"],
        ["S 0.15 F 0.1 LA 0.1 KE 0.1 O 0.1 FLAKE 0.1 FO 0.1 FLAS 0.1 X 0.15", "S 0.5 X 0.5"], ALL,
    ),
    Scene(
        "early_end", "f may go on and does not: END, then s from the root without f's children",
        "toy",
        "FLAKE FO", "f s",
        [_Q, "s 0.3 la 0.4 o 0.2 ke 0.1"],
        [_P, "S 0.15 LA 0.2 O 0.2 KE 0.1 FLAKE 0.15 X 0.2", "S 0.5 X 0.5"], ALL,
    ),
    Scene(
        "dead_end", "f la is a prefix and o is not its child: the token is drawn below f la", "toy",
        "FLAKE FLAS", "f la o",
        [_Q, "la 0.9 o 0.1", "o 0.4 ke 0.4 s 0.2"],
        ["FLAKE 0.2 FLAS 0.1 F 0.1 X 0.4 S 0.2"], TRIE,
    ),
    Scene(
        "bonus_inside", "the draft ends inside FLAKE and FLAS: the bonus is one of the two", "toy",
        "FLAKE FLAS", "s f la",
        ["s 0.5 f 0.5", _Q, "la 0.7 o 0.3"],
        ["S 0.6 F 0.2 X 0.2", "FLAKE 0.3 FLAS 0.5 F 0.1 X 0.1"], TRIE,
    ),
    Scene(
        "bonus_inside_single", "one token is left below the end of the draft: no uniform is taken", "toy",
        "FLAKE", "f la", [_Q, "la 0.5 s 0.5"], ["FLAKE 0.6 F 0.3 X 0.1"], TRIE,
    ),
    Scene(
        "bonus_inside_with_end", "the draft ends at a node that is F: the bonus may be F", "toy", "FLAKE FO",
        "f", [_Q], ["F 0.3 FLAKE 0.3 FO 0.2 S 0.2"], TRIE,
    ),
    Scene(
        "expansion", "sfo stands for S F O; each is accepted with its probability p", "toy", "", "sfo s",
        ["sfo 0.4 s 0.6", "s 0.5 f 0.5"],
        ["S 0.6 X 0.4", "F 0.7 FLAKE 0.3", "O 0.5 FO 0.5", "S 0.3 F 0.7", "X 1"], EXACT,
    ),
    Scene(
        "prefix_keys", "AB, ABC and ABCD: END competes with the child", "deep", "AB ABC ABCD", "a b c e",
        ["a 0.7 b 0.2 e 0.1", "b 0.9 a 0.1", "c 0.75 a 0.15 d 0.1", "e 0.15 d 0.7 a 0.15"],
        ["A 0.2 AB 0.15 ABC 0.05 ABCD 0.2 X 0.3 B 0.1", "E 0.3 A 0.3 X 0.4", "B 1"], ALL,
    ),
    Scene(
        "no_single_token", "d is not a token: END is not among the options inside d", "deep", "DE", "d e",
        ["d 0.6 a 0.4", "e 0.5 a 0.5"], ["DE 0.5 A 0.3 X 0.2", "A 1"],
    ),
    Scene(
        "equal_distributions", "P = Q: nothing is ever rejected", "toy", "", "s f",
        ["s 0.5 f 0.5", "s 0.5 f 0.5"], ["S 0.5 F 0.5", "S 0.5 F 0.5", "X 1"],
    ),
    Scene(
        "impossible", "the target gives the proposed token no mass: always rejected", "toy", "", "s",
        ["s 0.5 f 0.5"], ["F 0.5 X 0.5", "X 1"], ALL,
    ),
    Scene(
        "end_of_no_mass", "the child has all of q but a rest that rounding loses: Q of END is 0", "toy",
        "FLAKE FO", "f s", ["f 0.5 s 0.5", "la 0.5 o 0.5 s 1e-20"],
        ["F 0.3 FLAKE 0.2 FO 0.2 S 0.3", "S 0.5 X 0.5", "X 1"],
    ),
    Scene(
        "end_of_no_mass_at_all", "Q of END is 0, and so is P: the ratio is 0", "toy",
        "FLAKE FO", "f s", ["f 0.5 s 0.5", "la 0.5 o 0.5 s 1e-20"],
        ["FLAKE 0.6 FO 0.1 S 0.3", "S 0.5 X 0.5", "X 1"],
    ),
    Scene(
        "dead_end_of_no_mass", "P = Q at a dead end, up to a rest that rounding loses: the child by P", "toy",
        "FLAKE", "f la o", ["f 0.25 s 0.75", "la 0.5 s 0.5", "ke 1 o 1e-20"],
        ["F 0.3 FLAKE 0.5 S 0.2", "X 1"],
    ),
    Scene(
        "second_try", "the first try at the residual often fails: P is close to Q on all but one token",
        "toy",
        "", "f", ["s 0.45 f 0.5 la 0.05"], ["S 0.44 F 0.2 LA 0.04 O 0.32", "X 1"],
    ),
    Scene(
        "makes_up", "a decision that the target likes better makes up for one it likes less", "toy", "",
        "s f la",
        ["s 0.8 f 0.2", "f 0.25 la 0.75", "la 0.5 ke 0.5"],
        ["S 0.4 F 0.6", "F 0.375 LA 0.625", "LA 0.5 KE 0.5", "O 1"],
    ),
    Scene(
        "snow", "the paper's worked example: q' of flake is 0.36, f keeps 0.14", "snow", "flake",
        "Snow f la ke is",
        [
            "Snow 0.6 f 0.4", "f 0.5 is 0.5", "la 0.8 in 0.2", "ke 0.9 in 0.1", "is 0.4 in 0.6",
        ],
        [
            "Snow 0.5 s 0.5", "flake 0.3 f 0.2 is 0.5", "is 0.3 s 0.7", "s 1",
        ], ALL,
    ),
]  # fmt: skip
