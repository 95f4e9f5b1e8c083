"""Cases of the file formats: good files, and for each fault at least one bad file.

`CASES` lists the modules; each has a function `write`.
Begin with signing.py, the shortest; the manifest is in ../manifests.
"""

from vectorlib.cases.files import (
    adapter,
    adapter_fit,
    cache,
    cache_invalid,
    graph_files,
    session,
    session_invalid,
    signing,
    sync,
    sync_pull,
    tokenizer,
    vocab_map,
)

CASES = (
    tokenizer,
    cache,
    cache_invalid,
    session,
    session_invalid,
    graph_files,
    vocab_map,
    signing,
    adapter,
    adapter_fit,
    sync,
    sync_pull,
)
