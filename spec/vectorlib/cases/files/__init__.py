"""Cases of the file formats: good files, and for each fault at least one bad file.

`CASES` lists the modules; each has a function `write`.
Begin with signing.py, the shortest; bundle.py is the manifest.
"""

from vectorlib.cases.files import (
    adapter,
    bundle,
    cache,
    cache_invalid,
    session,
    session_invalid,
    signing,
    sync,
    trace,
)

CASES = (cache, cache_invalid, session, session_invalid, bundle, signing, adapter, trace, sync)
