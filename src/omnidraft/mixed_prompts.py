"""Prompts of five kinds that are made from lists: what the demo learns from, and what it times."""

from __future__ import annotations

import random

from omnidraft.sample_prompts import word_problems

KINDS = ("maths", "code", "chat", "story", "summary")
_UNSEEN = 3  # of each list, its last ones are only timed

_CODE = (
    "reverses a string", "counts the vowels in a text", "returns the largest number in a list",
    "checks whether a number is prime", "removes duplicates from a list", "sorts a list of names by length",
    "computes the factorial of a number", "converts Celsius to Fahrenheit", "counts the words in a sentence",
    "finds the longest word in a list", "sums the digits of a number",
    "returns the common items of two lists",
    "flattens a list of lists", "checks whether two words are anagrams", "rounds a price to two decimals",
    "returns the n-th Fibonacci number", "merges two dictionaries", "returns the median of a list",
    "counts how often each letter occurs in a word", "checks whether a year is a leap year",
    "returns the even numbers of a list",
)  # fmt: skip
CHAT = (
    "How do I remove a coffee stain from a shirt?", "Why is the sky blue?", "What should I pack for a hike?",
    "How can I sleep better?", "What is the difference between a virus and a bacterium?",
    "Give me five tips for a job interview.", "How do vaccines work?", "What can I cook with rice and beans?",
    "How do I start a vegetable garden?", "What are the benefits of walking every day?",
    "How does a bicycle stay upright?", "What is inflation?", "How do I write a polite reminder e-mail?",
    "Why do leaves change colour in autumn?", "List five hobbies that need no equipment.",
    "How can I learn a language faster?", "What is a black hole?", "How do I take care of a cactus?",
    "What makes bread rise?", "Give me three ideas for a rainy afternoon.",
    "How do noise-cancelling headphones work?",
)  # fmt: skip
_STORY = (
    "a lighthouse keeper", "a robot that paints", "a lost kitten", "two friends on a train", "a talking tree",
    "a clockmaker", "a dragon who is afraid of fire", "a girl who finds a map", "the last bookshop in town",
    "a baker and a thief", "a snowman in spring", "a boat without a captain", "a shy astronaut",
    "a violin that plays by itself", "a city under the sea", "a boy and his kite", "an old bridge",
    "a fox who wants to read", "a letter that comes late", "a garden on the moon", "a dog at a school",
)  # fmt: skip
_FACTS = (
    "The town library will open at seven in the morning from March on. Many commuters had asked for this. "
    "The longer hours are paid for by a donation of a local company.",
    "Bees find their way by the position of the sun. When they return to the hive they dance, and the angle "
    "of the dance tells the other bees where the flowers are.",
    "The museum bought a painting that had hung in a kitchen for fifty years. Its owner did not know that it "
    "was two hundred years old. It will be shown from May.",
    "Researchers let two hundred people sleep one hour longer for a month. They made fewer mistakes in tests "
    "and said that they were in a better mood.",
    "The bridge was closed after a crack was found in a beam. Engineers expect that the repair takes six "
    "weeks. Until then buses go around by the old road.",
    "A new battery stores energy in salt water. It is heavier than the usual ones, but it does not burn and "
    "it costs half as much.",
    "The school garden began with three tomato plants. Now forty children grow vegetables there, and the "
    "kitchen cooks with them twice a week.",
)


def learned_prompts(count: int) -> list[str]:
    """Prompts to learn from, the kinds in turn; none of them is among `unseen_prompts`."""
    draw = random.Random(0)
    maths = iter(word_problems(count, 1))
    lists = {kind: items[:-_UNSEEN] for kind, items in _lists().items()}
    kinds = [KINDS[place % len(KINDS)] for place in range(count)]
    return [next(maths) if kind == "maths" else draw.choice(lists[kind]) for kind in kinds]


def unseen_prompts() -> list[tuple[str, str]]:
    """(kind, prompt): three of each kind, which are not among `learned_prompts`."""
    lists = {"maths": word_problems(_UNSEEN, seed=0), **{k: v[-_UNSEEN:] for k, v in _lists().items()}}
    return [(kind, prompt) for kind in KINDS for prompt in lists[kind]]


def story_prompts() -> list[str]:
    """Prompts that ask for a story."""
    return [f"Write a short story about {subject}." for subject in _STORY]


def _lists() -> dict[str, list[str]]:
    return {
        "code": [f"Write a Python function that {task}." for task in _CODE],
        "chat": list(CHAT),
        "story": story_prompts(),
        "summary": [f"Summarize in one sentence: {text}" for text in _FACTS],
    }
