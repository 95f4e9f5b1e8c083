"""Vectors of `lookup`: what is copied from the context, round after round."""

from vectorlib.reference.generate import copied
from vectorlib.writer import VectorWriter, vector

# name, why, the context as it grows, tokens to copy
CASES: list[tuple[str, str, list[list[int]], int]] = [
    ("too_short", "nothing came before", [[], [1], [1, 2]], 4),
    ("nothing_repeats", "no two tokens occur again", [[1, 2, 3, 4, 5]], 4),
    ("one_is_not_enough", "a single token that occurs again is no match", [[1, 2, 3, 1]], 4),
    ("two", "the last two tokens, and what followed them", [[1, 2, 3, 4, 1, 2]], 2),
    ("runs_into_itself", "the copy goes on with what it copied", [[1, 2, 3, 1, 2]], 7),
    ("one_token_again", "the worked example of spec/speculation.md", [[9, 9, 9]], 4),
    ("longest_wins", "three tokens match there and two at the 8", [[0, 1, 2, 7, 3, 1, 2, 8, 0, 1, 2]], 1),
    ("four_at_most", "five would match earlier, four match later", [[5, 1, 2, 3, 4, 6, 1, 2, 3, 4, 7, 5, 1,
     2, 3, 4]], 1),
    ("latest_of_equals", "of two occurrences the later one", [[1, 2, 3, 1, 2, 4, 1, 2]], 1),
    ("grows", "what was said in a round is found in the next", [[1, 2], [1, 2, 3, 1, 2], [1, 2, 3, 1, 2, 4,
     3, 1, 2]], 2),
    ("last_follower", "an occurrence at the very end has no follower", [[1, 2, 5, 6], [1, 2, 5, 6, 5, 6]], 3),
]  # fmt: skip


def write(writer: VectorWriter) -> None:
    found = [
        vector(name, why, {"contexts": contexts, "count": n}, {"copies": [copied(c, n) for c in contexts]})
        for name, why, contexts, n in CASES
    ]
    writer.vectors("lookup", "copies", found)
