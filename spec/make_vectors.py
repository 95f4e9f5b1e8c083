"""Write spec/vectors from the rules of spec/*.md: `python spec/make_vectors.py [DIRECTORY]`.

Imports nothing of omnidraft: an independent implementation in vectorlib/ computes what is expected, so that a
runtime is compared with the rules and not with itself. The same bytes come out every time.
"""

import sys
from pathlib import Path

from vectorlib import (
    cases_adapter,
    cases_bundle,
    cases_cache,
    cases_course,
    cases_generate,
    cases_invalid,
    cases_learner,
    cases_length,
    cases_lookup,
    cases_random,
    cases_sampling,
    cases_session,
    cases_signing,
    cases_sync,
    cases_template,
    cases_tensors,
    cases_text,
    cases_tokenize,
    cases_trace,
    cases_translate,
    cases_verify,
)
from vectorlib.shelf import Shelf
from vectorlib.words import MAPS

HERE = Path(__file__).resolve().parent


def write_vectors(root: Path) -> dict[str, int]:
    """Write all vectors below a directory and return how many each folder has."""
    shelf = Shelf(root)
    for name, words in MAPS.items():
        shelf.table(f"maps/{name}.json", words.as_json())
    for module in (
        cases_random, cases_sampling, cases_translate, cases_verify, cases_text, cases_tokenize, cases_length,
        cases_lookup, cases_cache, cases_invalid, cases_generate, cases_session, cases_template, cases_bundle,
        cases_signing, cases_adapter, cases_trace, cases_sync, cases_learner,
        cases_course, cases_tensors,
    ):  # fmt: skip
        module.write(shelf)
    return shelf.finish()


if __name__ == "__main__":
    counts = write_vectors(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "vectors")
    for folder, count in counts.items():
        print(f"{folder:16} {count:4}")
    print(f"{'together':16} {sum(counts.values()):4}")
