"""Breaks the Python runtime on purpose, one line at a time, and runs the tests that must see it.

python scripts/mutate.py [NAME...]: exit status 1 if a mutant survives. Kotlin, Swift and the trial have
runners of their own: docs/porting.md, "Break it on purpose".
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/omnidraft"
SECONDS = 600  # a mutant that takes longer is caught: it does not end


class Mutation(NamedTuple):
    """A text that occurs once in a file of the package, what replaces it, and the arguments of pytest."""

    file: str
    old: str
    new: str
    tests: str


MUTATIONS = {
    "a likely coin always falls to one side": Mutation(
        "runtime/decoding/rng.py", "probability >= 1.0 or", "probability >= 0.9 or",
        "conformance/test_vectors.py -k random"),
    "a long prompt loses a token behind each piece": Mutation(
        "runtime/models/ort_model.py", "tokens[_PREFILL_CHUNK:], head", "tokens[_PREFILL_CHUNK + 1 :], head",
        "runtime/models/test_ort_model.py"),
    "a pass has the adapter of before": Mutation(
        "runtime/models/ort_model.py", "        self._blocks = {}  # a binding cannot drop an input\n", "",
        "runtime/models/test_ort_model.py"),
    "a pass of many rows shares the buffer of few": Mutation(
        "runtime/models/ort_model.py", "if count > _MOST_ROWS:", "if False:",
        "runtime/models/test_ort_model.py"),
    "rounding leads to a weight of zero": Mutation(
        "runtime/decoding/distribution.py", "weights[index] <= 0.0 and index > 0", "False",
        "runtime/decoding/test_sampler_rng.py"),
    "rounding leads past the last block": Mutation(
        "runtime/decoding/distribution.py", "int(np.flatnonzero(self._weights)[-1])", "self.size - 1",
        "runtime/decoding/test_sampler_rng.py"),
    "the rest of a row may be rounding alone": Mutation(
        "runtime/decoding/decision.py", "rest if rest > _ROUNDING else", "rest if True else",
        "runtime/decoding/test_exactness.py -k truncation"),
    "an eviction closes the root of other n-grams": Mutation(
        "runtime/vocab/trie.py", ">= 0 or self.active[low:high].any())", ">= 0)",
        "runtime/vocab/test_ngram_cache.py"),
    "n-grams of a prefill have no root": Mutation(
        "runtime/vocab/trie.py", "        self.root_mask[self.map.leaf_firsts[leaves]] = 1.0\n", "",
        "runtime/vocab/test_ngram_cache.py"),
    "a prefilled n-gram is of round 0": Mutation(
        "runtime/vocab/ngram_cache.py",
        "] = self.tick\n        self._counts[:, np", "] = 0\n        self._counts[:, np",
        "runtime/vocab/test_ngram_cache.py"),
    "a cache file may hold an alias": Mutation(
        "runtime/vocab/cache_table.py", "(vocab_map.leaf_of[table.targets] >= 0).all()", "True",
        "conformance/test_vectors.py -k cache"),
    "a direct pair needs no leaf": Mutation(
        "runtime/vocab/vocab_map.py", "(leaves < 0).any() or ", "", "runtime/vocab/test_vocab_map_file.py"),
    "a failed state is tried again": Mutation(
        "runtime/vocab/code_point_program.py", "                visited[place] = marks | mark\n", "",
        "runtime/vocab/test_tokenizer_file.py::test_a_program_visits_no_state_twice"),
    "unknown characters are never fused": Mutation(
        "runtime/vocab/compiled_tokenizer.py", "waits and not flags & ModelFlag.FUSE_UNKNOWN", "waits",
        "export/test_compiled_tokenizer.py::test_unknown_characters_are_one_token_where_the_model_fuses_them"),
    "unknown characters are always fused": Mutation(
        "runtime/vocab/compiled_tokenizer.py", "waits and not flags & ModelFlag.FUSE_UNKNOWN", "False",
        "export/test_compiled_tokenizer.py::test_unknown_characters_are_one_token_where_the_model_fuses_them"),
}  # fmt: skip


def is_caught(mutation: Mutation) -> bool:
    """Whether the tests fail on a copy of the package with the mutation.

    Raises:
        SystemExit: the text does not occur once, or no test ran.
    """
    with tempfile.TemporaryDirectory(prefix="omnidraft-mutant-") as folder:
        copy = Path(folder) / "omnidraft"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        source = copy / mutation.file
        text = source.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            sys.exit(f"{mutation.file} has {mutation.old!r} {text.count(mutation.old)} times, not once")
        source.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        tests = f"tests/{mutation.tests}".split()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        env = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return True
    if ran.returncode not in (0, 1):  # of pytest: passed, or tests failed
        sys.exit(f"{' '.join(tests)} did not run: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.returncode == 1


def main() -> None:
    chosen = sys.argv[1:] or list(MUTATIONS)
    survived = 0
    for name in chosen:
        caught = is_caught(MUTATIONS[name])
        survived += not caught
        print(f"{name}: {'caught' if caught else 'SURVIVED'}", flush=True)
    print(f"{len(chosen) - survived} caught, {survived} survived")
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
