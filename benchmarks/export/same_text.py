"""How often greedy text with drafts is plain text, how far long passes round, and what bitwise costs.

    python -m benchmarks.export.same_text BUNDLE ... [--prompts N] [--tokens N]

Prompts are the last rows of GSM8K, MBPP and SciTLDR. Each is answered plainly and with drafts (auto), as
usual and with `bitwise`, in turns; speeds are ratios to usual plain decoding, and the reading of prompts is
not timed. For the distributions the first tokens of each plain answer are read again, token by token and in
passes of 2, 4, 5 and 9 tokens: the total variation of the next token at temperature 1 between the two.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.support.task_data import require, rows
from omnidraft.runtime.decoding.model import Model
from omnidraft.runtime.session.api import GenerationConfig, LanguageModel, TextSession, load_bundle
from omnidraft.runtime.session.modes import Mode
from omnidraft.sample_prompts import PROMPTS

WIDTHS = (2, 4, 5, 9)  # tokens of the passes that are compared with passes of one token
COMPARED = 36  # tokens of an answer that are compared, at most
ARMS: dict[str, tuple[Mode, bool]] = {  # mode, and whether the session is bitwise
    "plain": ("plain", False), "drafts": ("trie", False), "plain, bitwise": ("plain", True),
    "drafts, bitwise": ("trie", True),
}  # fmt: skip
Floats = npt.NDArray[np.float64]
Answers = dict[str, tuple[list[int], float]]  # by arm: ids, and tokens a second


def prompts(count: int) -> list[str]:
    """The last `count` rows of each task."""
    return [
        *(row["question"] for row in rows("gsm8k/test")[-count:]),
        *(row["text"] for row in rows("mbpp/mbpp")[-count:]),
        *("Summarize in one sentence: " + " ".join(row["source"]) for row in rows("scitldr/dev")[-count:]),
    ]


def answers(
    loaded: LanguageModel, texts: Sequence[str], tokens: int
) -> Iterator[dict[str, tuple[list[int], float]]]:
    """For each prompt the ids and the tokens a second of each arm."""
    sessions = {bitwise: TextSession(loaded, bitwise=bitwise) for bitwise in (False, True)}
    for session in sessions.values():
        session.measure(PROMPTS[0])
    for text in (texts[0], *texts):  # the first once more, to warm up
        answer = {}
        for name, (mode, bitwise) in ARMS.items():
            session = sessions[bitwise]
            session.forget_context()
            done = session.generate(text, GenerationConfig(max_new_tokens=tokens, mode=mode)).finish()
            answer[name] = done.token_ids, done.statistics.emitted / done.statistics.total_seconds
        yield answer


def variations(model: Model, prompt: Sequence[int], answer: Sequence[int]) -> Iterator[tuple[float, bool]]:
    """Total variation of the next token, and whether it has another argmax, at each position and width."""
    model.rewind(0)
    model.score(prompt, 1)
    single = _distributions(model, answer, 1)
    for width in WIDTHS:
        model.rewind(len(prompt))
        wide = _distributions(model, answer, width)
        for one, other in zip(single, wide, strict=True):
            yield 0.5 * float(np.abs(one - other).sum()), bool(one.argmax() != other.argmax())


def _distributions(model: Model, ids: Sequence[int], width: int) -> list[Floats]:
    """The distribution after each id, read in passes of `width`."""
    found = []
    for start in range(0, len(ids), width):
        for row in model.score(ids[start : start + width]):
            weights = np.exp(row.astype(np.float64) - float(row.max()))
            found.append(weights / weights.sum())
    return found


def line(place: Path, texts: Sequence[str], tokens: int) -> str:
    """The row of a bundle."""
    loaded = load_bundle(place, measure="never")
    model, session = loaded.target.new_model(), TextSession(loaded)
    ratios, same = defaultdict[str, list[float]](list), defaultdict[str, int](int)
    found = list[tuple[float, bool]]()
    for text, arms in zip(texts, list(answers(loaded, texts, tokens))[1:], strict=True):
        for name, (ids, speed) in arms.items():
            ratios[name].append(math.log(speed / arms["plain"][1]))
            same[name] += ids == arms["plain, bitwise" if ARMS[name][1] else "plain"][0]
        found += variations(model, session.encode(text), arms["plain"][0][:COMPARED])
    distances = [distance for distance, _ in found]
    speeds = [f"{math.exp(float(np.mean(ratios[name]))):.2f}" for name in list(ARMS)[1:]]
    return (
        f"| {place.name} | {loaded.bundle.target.quantization} | {same['drafts']} of {len(texts)} | "
        f"{same['drafts, bitwise']} of {len(texts)} | {np.mean(distances):.3f}, {max(distances):.3f} | "
        f"{np.mean([other for _, other in found]):.1%} | {' | '.join(speeds)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    parser.add_argument("--prompts", type=int, default=10, help="prompts of each of the three tasks")
    parser.add_argument("--tokens", type=int, default=96, help="output tokens of an answer, at most")
    options = parser.parse_args()
    require("tasks")
    print(
        "| bundle | target | same text | with bitwise | total variation: mean, largest | other argmax | "
        "drafts | plain, bitwise | drafts, bitwise |"
    )
    print("|---" * 9 + "|")
    for place in options.bundles:
        print(line(place, prompts(options.prompts), options.tokens), flush=True)


if __name__ == "__main__":
    main()
