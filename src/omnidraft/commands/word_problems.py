"""Word problems in arithmetic, made up from a seed: something to ask where no prompts are at hand."""

from __future__ import annotations

import random

_NAMES = (
    "Ada", "Ben", "Chloe", "Dan", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Leo", "Mia",
    "Noor", "Oscar", "Priya", "Quinn", "Rosa", "Sam", "Tara", "Umar", "Vera", "Will", "Yuki", "Zoe",
)  # fmt: skip
_THINGS = (
    "apples", "pencils", "books", "marbles", "stickers", "cookies", "coins", "stamps", "shells", "cards",
    "oranges", "balloons", "toys", "eggs", "flowers", "bottles", "candles", "ribbons", "beads", "muffins",
)  # fmt: skip
_HOLDERS = ("boxes", "bags", "baskets", "shelves", "jars", "crates", "trays", "packs")
_PLACES = ("market", "school fair", "bakery", "farm stand", "corner shop", "library sale")
_TEMPLATES = (
    "{a} has {n} {things}. {b} gives {a} {m} more {things}, and then {a} loses {k} of them. How many "
    "{things} does {a} have left?",
    "There are {k} {holders} at the {place} with {n} {things} in each. {a} buys {m} of the {things}. How "
    "many {things} are left?",
    "{a} buys {k} {things} for ${n} each and pays with ${big}. How much change does {a} get?",
    "{a} reads {n} pages on Monday and twice as many on Tuesday. {b} reads {m} pages fewer than {a} does in "
    "the two days. How many pages does {b} read?",
    "{a} works {k} hours a day for {m} days and earns ${n} an hour. How much does {a} earn in total?",
    "{a} and {b} collect {things}. {a} has {n} and {b} has {k} times as many. How many {things} do they "
    "have together?",
    "A train travels {n} miles an hour for {k} hours and then {m} miles an hour for {j} hours. How many "
    "miles does it travel altogether?",
    "{a} bakes {k} trays of {n} {things} and sells half of them at the {place} for ${j} each. How much money "
    "does {a} make?",
    "{a} saves ${n} every week for {k} weeks and then spends ${m} on {things}. How much money is left?",
    "A class of {big} children is split into groups of {k}. Each group gets {n} {things}. How many {things} "
    "are needed in all?",
    "{a} is {n} years old. {b} is {k} years older than {a}, and {c} is twice as old as {b}. How old is {c}?",
    "The {place} sells {n} {things} on Friday, {m} more than that on Saturday, and {k} fewer on Sunday than "
    "on Saturday. How many {things} are sold over the three days?",
    "{a} packs {big} {things} into {holders} that hold {k} each. If every one of the {holders} costs ${j}, "
    "how much do they cost in total?",
    "{a} runs {k} miles a day from Monday to Friday and {n} miles on Saturday. How many miles does {a} run "
    "in {j} weeks?",
)  # fmt: skip


def word_problems(count: int, seed: int = 0) -> list[str]:
    """So many problems; the first ones of a seed are the same however many are asked for."""
    draw = random.Random(seed)
    return [_problem(draw) for _ in range(count)]


def _problem(draw: random.Random) -> str:
    a, b, c = draw.sample(_NAMES, 3)
    k = draw.randint(2, 9)
    return draw.choice(_TEMPLATES).format(
        a=a, b=b, c=c, k=k, j=draw.randint(2, 6), n=draw.randint(10, 60), m=draw.randint(3, 9),
        big=k * draw.randint(60, 90), things=draw.choice(_THINGS), holders=draw.choice(_HOLDERS),
        place=draw.choice(_PLACES),
    )  # fmt: skip
