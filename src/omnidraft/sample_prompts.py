"""Built-in prompts: a few prompts of four kinds, and word problems in arithmetic that are made from a seed.

Export and bench use `PROMPTS` where the user gives no prompts; the guides learn from `word_problems`.
"""

from __future__ import annotations

import random

PROMPTS = (
    "Mia has 4 boxes with 12 pencils each. She gives 9 pencils to her brother. How many pencils are left?",
    "A train travels 60 miles in the first hour and 45 miles in the second. How many miles is that in all?",
    "Write a function to find the largest number in a list.",
    "Write a python function to check whether a string is a palindrome.",
    "Summarize in one sentence: We study how a small language model can propose tokens for a larger one. "
    "The larger model checks several tokens in one pass. We show that the text stays the same while it is "
    "written faster, and we release our code.",
    "Tom buys 3 books for $7 each and 2 pens for $1.50 each. He pays with a $50 bill. What is his change?",
)

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
    """The first `count` problems of a seed; a larger count begins with the same problems."""
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
