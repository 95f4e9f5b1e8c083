"""JSON Schemas that compile, whether a model's texts are valid, and the time of a mask; beside llguidance.

    python -m benchmarks.grammar_coverage SCHEMAS --bundle BUNDLE [--most 300] [--texts 20] [--tokens 60]
        [--results FILE] [--no-masks]

SCHEMAS is a folder of JSON files or an archive of tar; a file is a schema, an object with `schema`, or a list
of such objects (JSONSchemaBench, the JSON Schema Test Suite). `--most N` reads N of the files, evenly spaced.
Texts are sampled at T = 1. With `--results` a second run continues the first; masks are those of this run.
Masks are timed along a random text of each grammar, for the bundle's vocabulary and for 262,144 tokens: those
of the tokenizers in OMNIDRAFT_DATA, and pairs of them. llguidance reads the same texts where it is installed.
"""

import argparse
import json
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from benchmarks.support.task_data import require
from omnidraft.errors import GrammarError
from omnidraft.grammar import Grammar, from_schema
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.grammar import START, Configuration
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.session.api import GenerationConfig, TextSession
from omnidraft.runtime.session.language_model import load_bundle
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer

MANY = 262_144
STEPS = 40
Tokens = Sequence[bytes | None]


def schemas(path: Path, most: int) -> Iterator[tuple[str, Any]]:
    """Names and schemas of files that hold some; files that are no JSON are left out."""
    if path.is_dir():
        files = {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*.json"))}
    else:
        with tarfile.open(path) as archive:
            members = [each for each in archive if each.isfile() and each.name.endswith(".json")]
            files = {each.name: archive.extractfile(each).read() for each in members}  # type: ignore[union-attr]
    names = sorted(files)
    for name in names[:: max(1, len(names) // most)][:most]:
        try:
            data = json.loads(files[name])
        except ValueError:
            continue
        cases = data if isinstance(data, list) else [data]
        for i, case in enumerate(cases):
            held = isinstance(case, dict) and "schema" in case
            yield (f"{name}#{i}" if len(cases) > 1 else name), case["schema"] if held else case


def reason_of(error: GrammarError) -> str:
    """A refusal without the place and the values of one schema."""
    words = error.message.split(" at #", 1)
    rest = words[-1].split(" ", 1)[-1] if len(words) > 1 else words[0]
    return rest[:70]


def validator_of(schema: Any) -> Any:
    """A validator that reads decimal numbers, because multiples of floats are wrong in the last bit."""
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(exact, format_checker=kind.FORMAT_CHECKER)


def fault_of(text: str, validator: Any) -> str:
    """Why a text is no valid one; empty if it is."""
    try:
        validator.validate(json.loads(text, parse_float=Decimal))
    except Exception as error:  # a validator may also fail at the schema itself
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return ""


def sampled(session: TextSession, schema: Any, grammar: Grammar, count: int, tokens: int) -> list[str]:
    """Texts of a model at T = 1; none where the shortest has no room in eight times the tokens."""
    prompt = f"Write JSON for this schema: {json.dumps(schema)[:300]}"
    for room in (tokens, 8 * tokens):
        configs = [GenerationConfig(max_new_tokens=room, temperature=1.0, seed=seed) for seed in range(count)]
        try:
            return [session.generate(prompt, config, grammar=grammar).finish().text for config in configs]
        except GrammarError:
            continue
    return []


def many_tokens(least: Tokens) -> list[bytes | None]:
    """262,144 tokens: the given ones, those of real tokenizers, and pairs of them."""
    folder = require("tokenizers")
    found = dict.fromkeys(each for each in least if each)
    for name in ("gpt2", "llama3", "qwen2", "llama2"):
        found |= dict.fromkeys(each for each in LibraryTokenizer.from_file(folder / name).tokens if each)
    real, rng = list(found), np.random.default_rng(0)
    while len(found) < MANY - 1:
        a, b = rng.integers(len(real), size=2)
        found[real[a][:8] + real[b][:8]] = None
    return [*list(found)[: MANY - 1], None]


class Timed:
    """Seconds of masks of one vocabulary, here and in llguidance."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens, self.trie = tokens, ByteTrie(tokens, len(tokens))
        self.cold: list[float] = []
        self.cached: list[float] = []
        self.peer: list[float] = []
        self.peer_refused: Counter[str] = Counter()
        try:
            import llguidance
            import llguidance.numpy as bits
        except ImportError:
            self._peer: Any = None
            return
        self._peer, self._bits = llguidance, bits
        self._row = bits.allocate_token_bitmask(1, len(tokens))
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Vocabulary(tokens)))

    def walk(self, grammar: Grammar, schema: Any) -> None:
        """Time the masks along a random text."""
        try:
            masks = TokenMasks(grammar, self.trie, [len(self.tokens) - 1])
        except GrammarError:
            return
        rng, at, text = np.random.default_rng(0), START, list[int]()
        path: list[Configuration] = []
        while len(path) < STEPS and not masks.is_last(at, 0):
            start = time.perf_counter()
            mask = masks.mask(at, 1000)
            if at not in path:
                self.cold.append(time.perf_counter() - start)
            path.append(at)
            token = int(rng.choice(np.flatnonzero(mask)))
            if self.tokens[token] is None:
                break
            behind = grammar.read(at, self.tokens[token] or b"")
            assert behind is not None
            at = behind
            text.append(token)
        for each in path:
            start = time.perf_counter()
            masks.mask(each, 1000)
            self.cached.append(time.perf_counter() - start)
        if self._peer:
            self._walk_peer(schema, text)

    def _walk_peer(self, schema: Any, text: list[int]) -> None:
        peer = self._peer
        source = peer.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = peer.LLMatcher(self._tokenizer, source)
        if matcher.is_error():
            self.peer_refused[matcher.get_error().splitlines()[0][:70]] += 1
            return
        for token in text:
            start = time.perf_counter()
            self._bits.fill_next_token_bitmask(matcher, self._row, 0)
            self.peer.append(time.perf_counter() - start)
            if not matcher.consume_token(token):
                return

    def report(self) -> None:
        """Print the percentiles."""
        for name, seconds in (("cold", self.cold), ("cached", self.cached), ("llguidance", self.peer)):
            if seconds:
                half, most = 1e3 * np.percentile(seconds, [50, 99])
                times = f"{half:.4f} ms, p99 {most:.4f} ms, {len(seconds)} masks"
                print(f"  {len(self.tokens):,} tokens, {name}: {times}")
        if self._peer:
            print(f"  llguidance refuses {sum(self.peer_refused.values())} of the compiled schemas")


class _Vocabulary:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = [each or b"\xff[%d]" % i for i, each in enumerate(tokens)]
        self.special_token_ids = [i for i, each in enumerate(tokens) if not each]
        self.eos_token_id, self.bos_token_id = len(tokens) - 1, None
        self._ids = {each: i for i, each in enumerate(self.tokens)}

    def __call__(self, text: str | bytes) -> list[int]:
        data = text if isinstance(text, bytes) else text.encode()
        return [self._ids[bytes([each])] for each in data]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("schemas", type=Path)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--texts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--no-masks", dest="masks", action="store_false")
    options = parser.parse_args()
    model = load_bundle(options.bundle, measure="never", threads=1)
    session, own = TextSession(model), model.target_tokenizer.tokens
    timed = [Timed([*own[:-1], None]), Timed(many_tokens(own))] if options.masks else []
    known: dict[str, dict[str, Any]] = {}
    if options.results and options.results.exists():
        known = {row["name"]: row for row in map(json.loads, options.results.read_text().splitlines())}
    for name, schema in schemas(options.schemas, options.most):
        if name in known:
            continue
        row = known[name] = examined(name, schema, session, timed, options)
        if options.results:
            with options.results.open("a") as results:
                results.write(json.dumps(row) + "\n")
        for fault in row["faults"]:
            print(f"  {name}: {fault}", flush=True)
    summarise(list(known.values()))
    for each in timed:
        each.report()


def summarise(rows: Sequence[dict[str, Any]]) -> None:
    """Print what compiled, why the others did not, and how many texts were valid."""
    compiled = [row for row in rows if not row["refused"]]
    seconds = [row["seconds"] for row in compiled]
    times = f"{np.median(seconds):.2f} s, at most {max(seconds):.1f} s" if seconds else "none"
    print(f"{len(compiled)} of {len(rows)} schemas compile, {times}")
    texts, sampled_of = sum(row["texts"] for row in compiled), sum(row["texts"] > 0 for row in compiled)
    faults = sum(len(row["faults"]) for row in compiled)
    print(f"{texts} texts of {sampled_of} schemas, {faults} of them not valid")
    for reason, count in Counter(row["refused"] for row in rows if row["refused"]).most_common(20):
        print(f"  {count} refused: {reason}")


def examined(
    name: str, schema: Any, session: TextSession, timed: Sequence[Timed], options: argparse.Namespace
) -> dict[str, Any]:
    """Compile, sample and time one schema."""
    start = time.perf_counter()
    row: dict[str, Any] = {"name": name, "refused": "", "texts": 0, "faults": []}
    try:
        grammar = from_schema(schema)
    except GrammarError as error:
        return row | {"refused": reason_of(error)}
    row["seconds"] = time.perf_counter() - start
    texts = sampled(session, schema, grammar, options.texts, options.tokens)
    validator = validator_of(schema)
    row["texts"], row["faults"] = len(texts), [f for f in (fault_of(text, validator) for text in texts) if f]
    for each in timed:
        each.walk(grammar, schema)
    return row


if __name__ == "__main__":
    main()
