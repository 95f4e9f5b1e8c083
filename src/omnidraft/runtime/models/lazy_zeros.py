"""Large buffers of zeros that take memory page by page, as they are written, and give all of it back."""

import math
import mmap
import sys

import numpy as np
import numpy.typing as npt


def lazy_zeros(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Zeros in pages of their own.

    `np.zeros` does not have this property. From 4 MB on it asks the system for huge pages, so a write of a
    few bytes takes 2 MB: the buffers of a context of 8,192 positions are in memory from the first tokens on.
    Below that size the C library may reuse freed memory. It fills reused memory with zeros, so the whole
    buffer takes memory, and the memory stays with the process after the buffer is gone.

    The price: with small pages a pass at a full context of 8,192 positions takes longer, most in a model as
    small as the starters, whose passes are nearly all attention there.

    Raises:
        MemoryError: the system refuses to promise that much.
    """
    if sys.platform == "win32":  # it has no private mappings without a file
        return np.zeros(shape, np.float32)
    size = np.dtype(np.float32).itemsize * math.prod(shape)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"no {size} bytes for a buffer") from error
    return np.frombuffer(pages, np.float32).reshape(shape)
