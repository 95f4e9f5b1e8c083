"""Reading a prompt: in chunks, as far as the target's KV cache lacks it."""

from collections.abc import Sequence

from omnidraft.runtime.decoding.model import Model

PREFILL_CHUNK = 64  # tokens of a prompt in one pass; a cancellation waits for one pass


def prefill(target: Model, tokens: Sequence[int], cached: list[int]) -> int:
    """Read a text up to its last token, which the next pass scores; return how many tokens were read.

    Args:
        target: its KV cache is rewound to what it shares with the text.
        cached: those that the KV cache holds, a beginning of the text; grows by what is read.
    """
    target.rewind(len(cached))
    before = len(cached)
    while (start := len(cached)) < len(tokens) - 1:
        chunk = tokens[start : min(start + PREFILL_CHUNK, len(tokens) - 1)]
        target.score(chunk, num_logits=1)
        cached += chunk
    return len(cached) - before


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix; bisects, so that the comparisons run in C."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
