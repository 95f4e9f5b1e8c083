"""Vectors of `lookup`: the tokens that are copied from the context, round after round."""

from vectorlib.reference.translator import copied, matched
from vectorlib.writer import VectorWriter, vector

# name, why, the context as it grows, tokens to copy
CASES: list[tuple[str, str, list[list[int]], int]] = [
    ("too_short", "the context is too short", [[], [1], [1, 2]], 4),
    ("nothing_repeats", "no two tokens in a row occur twice", [[1, 2, 3, 4, 5]], 4),
    ("one_is_not_enough", "a single repeated token is not a match", [[1, 2, 3, 1]], 4),
    ("two", "the last two tokens occurred before: copy what followed", [[1, 2, 3, 4, 1, 2]], 2),
    ("runs_into_itself", "the copy continues with its own tokens", [[1, 2, 3, 1, 2]], 7),
    ("one_token_again", "the worked example of spec/04-speculation.md", [[9, 9, 9]], 4),
    ("longest_wins", "three tokens match before the 7, two before the 8",
     [[0, 1, 2, 7, 3, 1, 2, 8, 0, 1, 2]], 1),
    ("four_at_most", "five would match earlier, four match later", [[5, 1, 2, 3, 4, 6, 1, 2, 3, 4, 7, 5, 1,
     2, 3, 4]], 1),
    ("latest_of_equals", "two occurrences: the later one", [[1, 2, 3, 1, 2, 4, 1, 2]], 1),
    ("grows", "the tokens of a round are searched in the next", [[1, 2], [1, 2, 3, 1, 2], [1, 2, 3, 1, 2, 4,
     3, 1, 2]], 2),
    ("match_of_five", "the match is longer than the four tokens that are searched for",
     [[0, 1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5]], 2),
    ("match_of_six_at_most", "eight tokens match, six count",
     [[1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8]], 2),
    ("last_follower", "no token follows an occurrence at the end", [[1, 2, 5, 6], [1, 2, 5, 6, 5, 6]], 3),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    vectors = [
        vector(
            name,
            why,
            {"contexts": contexts, "count": n},
            {"copies": [copied(c, n) for c in contexts], "matches": [matched(c) for c in contexts]},
        )
        for name, why, contexts, n in CASES
    ]
    writer.vectors("lookup", "copies", vectors)
