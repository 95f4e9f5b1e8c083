"""Cases of the file formats: good files, and for each fault at least one bad file.

`CASES` lists the modules; each has a function `write`.
Begin with signing.py, the shortest; bundle.py is the manifest.
"""

from vectorlib.cases.files import (
    adapter,
    adapter_fit,
    bundle,
    bundle_fields,
    cache,
    cache_invalid,
    graph_files,
    session,
    session_invalid,
    signing,
    sync,
    sync_pull,
    tokenizer,
    trace,
    vocab_map,
)

CASES = (
    tokenizer,
    cache,
    cache_invalid,
    session,
    session_invalid,
    bundle,
    bundle_fields,
    graph_files,
    vocab_map,
    signing,
    adapter,
    adapter_fit,
    trace,
    sync,
    sync_pull,
)
