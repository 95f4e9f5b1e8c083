"""Reading a text into a model so that its keys and values come out as they were, to the last bit.

A pass over one token and a pass over several run other kernels, and what they leave in the KV buffers
differs in the last bits, with int4 weights by more (a tenth in a logit was measured). How many tokens more
than one makes no difference up to 64 (beyond, attention is cut into blocks of queries). So a context
remembers which positions were computed alone, and whoever fills it again, as after a restart, computes the
same ones alone.
"""

from collections.abc import Iterator, Sequence

from omnidraft.runtime.decoding.model import Model

PREFILL_CHUNK = 64  # tokens of a prompt in one pass; a cancellation waits for one pass


def read(model: Model, tokens: Sequence[int], alone: Sequence[bool]) -> Iterator[int]:
    """Append tokens[model.length:] to a model's context; yields the length after each pass.

    Args:
        model: holds the first of the tokens already.
        tokens: all ids, at most max_length - 1.
        alone: of each id, whether it is computed in a pass of its own.
    """
    start = model.length
    while start < len(tokens):
        end = _end_of_pass(alone, start)
        ids = list(tokens[start:end])
        # A token that is not to be computed alone gets company, which is forgotten.
        model.score(ids if alone[start] or len(ids) > 1 else 2 * ids, num_logits=1)
        model.rewind(end)
        yield end
        start = end


def runs_of(alone: Sequence[bool]) -> list[int]:
    """Lengths of the runs of equal flags, the first of them of positions that were not computed alone."""
    runs, last = [0], False
    for flag in alone:
        if flag != last:
            runs.append(0)
            last = flag
        runs[-1] += 1
    return runs


def flags_of(runs: Sequence[int]) -> list[bool]:
    """The flags of which `runs_of` gave the runs."""
    return [bool(i % 2) for i, length in enumerate(runs) for _ in range(length)]


def _end_of_pass(alone: Sequence[bool], start: int) -> int:
    if alone[start]:
        return start + 1
    end = start + 1
    while end < len(alone) and not alone[end] and end - start < PREFILL_CHUNK:
        end += 1
    return end
