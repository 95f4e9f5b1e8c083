"""Byte-pair encoding: join the pair of neighbours with the lowest rank, until no pair has a rank."""

import heapq
from bisect import bisect_left
from collections.abc import Sequence

_MOST_CACHED = 1 << 15  # pairs


class MergeTable:
    """Merges by their pair of ids, found by binary search.

    Args:
        keys: left << 32 | right of each merge, ascending.
    """

    def __init__(self, keys: Sequence[int], values: Sequence[int]) -> None:
        self._keys, self._values = keys, values
        self._cached: dict[int, tuple[int, int] | None] = {}

    def find(self, left: int, right: int) -> tuple[int, int] | None:
        """Rank and merged id of a pair; None if nothing joins it."""
        key = left << 32 | right
        if key in self._cached:
            return self._cached[key]
        at = bisect_left(self._keys, key)
        found = None
        if at < len(self._keys) and self._keys[at] == key:
            found = self._values[2 * at], self._values[2 * at + 1]
        if len(self._cached) >= _MOST_CACHED:
            self._cached.clear()
        self._cached[key] = found
        return found

    def merge(self, ids: list[int]) -> list[int]:
        """Join neighbours: the lowest rank first, of equal ranks the leftmost. Time O(n log n).

        A queue holds every pair that has a rank. An entry whose pair has changed meanwhile is dropped: its
        left symbol is gone, or the pair gives another id.
        """
        symbols, size = list(ids), len(ids)
        before, behind = list(range(-1, size - 1)), list(range(1, size + 1))
        queue = []
        for at in range(size - 1):
            if (pair := self.find(symbols[at], symbols[at + 1])) is not None:
                queue.append((pair[0], at, pair[1]))
        heapq.heapify(queue)
        while queue:
            _, at, merged = heapq.heappop(queue)
            right = behind[at]
            if symbols[at] < 0 or right >= size:
                continue
            pair = self.find(symbols[at], symbols[right])
            if pair is None or pair[1] != merged:
                continue
            symbols[at], symbols[right] = merged, -1
            behind[at] = right = behind[right]
            if right < size:
                before[right] = at
                if (pair := self.find(merged, symbols[right])) is not None:
                    heapq.heappush(queue, (pair[0], at, pair[1]))
            left = before[at]
            if left >= 0 and (pair := self.find(symbols[left], merged)) is not None:
                heapq.heappush(queue, (pair[0], left, pair[1]))
        return [symbol for symbol in symbols if symbol >= 0]
