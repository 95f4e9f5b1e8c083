"""What does not merge; `cache/merge` of the vectors and `fuzz.fuzz_cache` have what does."""

from __future__ import annotations

import numpy as np
import pytest

from omnidraft.errors import CacheFileError
from omnidraft.runtime.vocab.cache_file import decode
from omnidraft.runtime.vocab.cache_table import CacheTable, merge
from omnidraft.runtime.vocab.vocab_map import Ragged
from support.cache_files import build
from support.tables import table
from support.toy import TARGET

FO = TARGET.index("FO")


def test_caches_of_different_pairs_do_not_merge() -> None:
    foreign = decode(build(prints="d" * 64 + "f" * 64))
    with pytest.raises(CacheFileError, match="of one pair of tokenizers") as caught:
        merge(table(), foreign)
    assert caught.value.fault == "foreign_vocabulary"


def test_caches_that_spell_differently_do_not_merge() -> None:
    a = table([FO])
    b = CacheTable(**{**a.__dict__, "spellings": Ragged(np.array([1, 5], np.int32), a.spellings.offsets)})
    for pair in ((a, b), (b, a)):
        with pytest.raises(CacheFileError, match=f"target token {FO} is") as caught:
            merge(*pair)
        assert caught.value.fault == "spelling"
