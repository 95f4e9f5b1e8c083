"""Vectors of `sampling`: temperature, truncation and penalty on a row of logits."""

from collections.abc import Callable
from functools import partial
from typing import Any

from vectorlib.reference.random_source import Distribution
from vectorlib.reference.sampling import NoDistribution, Sampling, draft_distribution, target_distribution
from vectorlib.writer import VectorWriter, vector

ROW = [2.0, -1.0, 0.5, 2.0, -3.0, 1.5, 0.0, -0.5]

TARGET: list[tuple[str, str, dict[str, Any], list[int]]] = [
    ("greedy", "temperature 0: all mass on the argmax, ties to the lowest id", {"temperature": 0.0},
     []),
    ("temperature_1", "the softmax", {"temperature": 1.0}, []),
    ("temperature_half", "a low temperature sharpens the distribution", {"temperature": 0.5}, []),
    ("temperature_2", "a high temperature flattens the distribution", {"temperature": 2.0}, []),
    ("temperature_small", "the lowest temperature: only the largest logits keep mass",
     {"temperature": 0.0001}, []),
    ("top_k_1", "one token: the lower id of the two largest", {"temperature": 1.0, "top_k": 1}, []),
    ("top_k_3", "three tokens", {"temperature": 1.0, "top_k": 3}, []),
    ("top_k_all", "k above the vocabulary size changes nothing", {"temperature": 1.0, "top_k": 50}, []),
    ("top_p_0.5", "the two largest have more than half of the mass", {"temperature": 1.0, "top_p": 0.5}, []),
    ("top_p_0.9", "the token that crosses the limit stays", {"temperature": 1.0, "top_p": 0.9}, []),
    ("top_p_tiny", "one token always stays", {"temperature": 1.0, "top_p": 1e-6}, []),
    ("top_p_after_top_k", "top-p is a share of the mass that top-k left",
     {"temperature": 1.0, "top_k": 4, "top_p": 0.8},
     []),
    ("min_p_0.3", "relative to the most probable", {"temperature": 1.0, "min_p": 0.3}, []),
    ("min_p_1", "only the most probable token and its equals", {"temperature": 1.0, "min_p": 1.0}, []),
    (
        "min_p_after_top_p",
        "each truncation works on the tokens that the one before left",
        {"temperature": 1.5, "top_p": 0.97, "min_p": 0.2},
        [],
    ),
    ("truncation_is_after_temperature", "the same top-p keeps more tokens at a high temperature",
     {"temperature": 3.0,
     "top_p": 0.5}, []),
    (
        "penalty",
        "positive logits are divided, negative logits multiplied; an id that occurs twice is penalised once",
        {"temperature": 1.0, "repetition_penalty": 1.5},
        [0, 1, 1, 4],
    ),
    ("penalty_below_1", "a penalty below 1 makes tokens of the context likelier",
     {"temperature": 1.0, "repetition_penalty": 0.5}, [2, 7]),
    ("penalty_of_zero_logit", "a logit of 0 stays 0", {"temperature": 1.0, "repetition_penalty": 2.0}, [6]),
    (
        "penalty_greedy",
        "the penalty comes before the argmax",
        {"temperature": 0.0, "repetition_penalty": 1.2},
        [0, 5],
    ),
    ("penalty_no_context", "an empty context: no penalty",
     {"temperature": 1.0, "repetition_penalty": 1.5}, []),
    ("penalty_worked", "the example of spec/04-speculation.md, section 2",
     {"temperature": 1.0, "top_p": 0.55, "repetition_penalty": 2.0}, [0, 1, 1, 2]),
    (
        "everything",
        "penalty, temperature, top-k, top-p, min-p, in this order",
        {"temperature": 0.8, "top_k": 5, "top_p": 0.95, "min_p": 0.1, "repetition_penalty": 1.3},
        [0, 3, 3],
    ),
]  # fmt: skip
DRAFT = [
    ("draft_greedy_banned", "the argmax of the ids that are not banned", 0.0, [0, 3]),
    ("draft_banned", "banned ids have no mass, the other ids share it", 1.0, [0, 6]),
    ("draft_free", "nothing is banned", 0.7, []),
]
TIES = [
    ("tie_top_k", "equal logits: the lowest ids are kept", [1.0, 1.0, 1.0, 1.0], Sampling(1.0, top_k=2)),
    ("tie_top_p", "equal logits: the lowest ids come first", [1.0, 1.0, 1.0, 1.0], Sampling(1.0, top_p=0.6)),
    (
        "top_p_edge",
        "two ids have exactly half of the mass before the third: it is dropped",
        [1.0, 1.0, 1.0, 1.0],
        Sampling(1.0, top_p=0.5),
    ),
    ("tie_greedy", "the lowest id", [0.0, 7.0, 7.0], Sampling(0.0)),
    ("far_apart", "logits of -10000: no overflow, no NaN", [-10000.0, 10000.0, 9999.0], Sampling(1.0)),
]


def write(writer: VectorWriter) -> None:
    vectors = []
    for name, why, settings, context in TARGET:
        given = {"logits": ROW, "context": context, "settings": settings}
        distribution = target_distribution(ROW, Sampling(**settings), context)
        vectors.append(vector(name, why, given, {"probabilities": _probabilities(distribution)}))
    for name, why, row, sampling in TIES:
        settings = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
        distribution = target_distribution(row, sampling, margin=0.0)  # their edges are exact in binary
        given = {"logits": row, "context": [], "settings": settings}
        vectors.append(vector(name, why, given, {"probabilities": _probabilities(distribution)}))
    writer.vectors("sampling", "target", vectors)
    vectors = []
    for name, why, temperature, banned in DRAFT:
        given = {"logits": ROW, "temperature": temperature, "banned": banned}
        distribution = draft_distribution(ROW, temperature, banned)
        vectors.append(vector(name, why, given, {"probabilities": _probabilities(distribution)}))
    writer.vectors("sampling", "drafter", vectors)
    writer.vectors("sampling", "spoiled", _spoiled())


# JSON has no such numbers: a row of a vector holds them as text.
SPOILED: list[tuple[str, str, list[float | str], dict[str, Any]]] = [
    ("nan", "a NaN counts as the largest", [0.0, "NaN", 3.0], {"temperature": 1.0}),
    ("nan_greedy", "also where nothing is divided", [0.0, 1.0, "NaN"], {"temperature": 0.0}),
    ("nan_penalised", "a NaN stays one", ["NaN", 1.0], {"temperature": 1.0, "repetition_penalty": 2.0}),
    ("infinite", "infinity minus infinity is NaN", [0.0, "Infinity"], {"temperature": 0.7}),
    ("infinite_greedy", "one infinite logit", ["Infinity", 1.0], {"temperature": 0.0}),
    ("nothing", "no id has weight", ["-Infinity", "-Infinity"], {"temperature": 1.0}),
    ("nothing_greedy", "the lowest id is not the largest of nothing", ["-Infinity", "-Infinity"],
     {"temperature": 0.0}),
    ("some_nothing", "-inf elsewhere: weight 0", ["-Infinity", 1.0, "-Infinity", 0.0], {"temperature": 1.0}),
    ("one_left", "one id has all the mass", ["-Infinity", -5.0], {"temperature": 0.5, "top_p": 0.5}),
    ("wide", "the widest logits of float32", [3e38, -3e38, 3e38], {"temperature": 1.0}),
]  # fmt: skip
SPOILED_DRAFT: list[tuple[str, str, list[float | str], float, list[int]]] = [
    ("nan", "the draft ends", [0.0, "NaN"], 1.0, []),
    ("nan_banned", "also where the NaN is of a banned id", [0.0, "NaN"], 0.0, [1]),
    ("infinite_banned", "and infinity", [0.0, "Infinity"], 1.0, [1]),
    ("all_banned", "no id is left", [0.0, 1.0], 1.0, [0, 1]),
    ("nothing_left", "the others have no weight", ["-Infinity", 1.0], 1.0, [1]),
    ("nothing_left_greedy", "at temperature 0, too", ["-Infinity", 1.0], 0.0, [1]),
    ("some_nothing", "-inf elsewhere has weight 0", ["-Infinity", 1.0, 2.0], 1.0, [2]),
]


def _spoiled() -> list[dict[str, Any]]:
    vectors = []
    for name, why, row, settings in SPOILED:
        given = {"logits": row, "context": [0], "settings": settings}
        numbers, sampling = [float(x) for x in row], Sampling(**settings)
        vectors.append(
            vector(name, why, given, _expected(partial(target_distribution, numbers, sampling, [0])))
        )
    for name, why, row, temperature, banned in SPOILED_DRAFT:
        given = {"logits": row, "temperature": temperature, "banned": banned}
        arguments = [float(x) for x in row], temperature, banned
        vectors.append(
            vector(f"draft_{name}", why, given, _expected(partial(draft_distribution, *arguments)))
        )
    return vectors


def _expected(made: Callable[[], Distribution]) -> dict[str, Any]:
    try:
        return {"probabilities": _probabilities(made()), "fault": None}
    except NoDistribution:
        return {"probabilities": None, "fault": "logits"}


def _probabilities(distribution: Distribution) -> list[float]:
    return [distribution.probability(t) for t in range(len(distribution.weights))]
