"""Two random vocabularies with a random model each, as a loaded bundle for real sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from omnidraft import LanguageModel
from omnidraft.export.build_vocab_map import build_vocab_map
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from support.table_graph import Table, table_graph
from support.tiny_tokenizers import byte_level

LETTERS = "abcd "  # the usual letters of these languages; other bytes are rare
_ROWS = 7
Rng = np.random.Generator


def random_tokenizer(rng: Rng) -> Tokenizer:
    """A byte-level tokenizer with up to 12 random merges."""
    pieces = [letter.encode() for letter in LETTERS]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(int(rng.integers(2, 13))):
        a, b = (pieces[int(i)] for i in rng.integers(len(pieces), size=2))
        if a + b not in pieces and len(a + b) <= 5:
            pieces.append(a + b)
            merges.append((a, b))
    return LibraryTokenizer(byte_level(merges, controls=["<s>", "<eos>"]))


def random_text(rng: Rng, most: int) -> str:
    """A message of the letters that is not blank."""
    return "a" + "".join(rng.choice(list(LETTERS), size=int(rng.integers(most))))


def random_tables(rng: Rng, tokenizer: Tokenizer) -> tuple[Table, Table]:
    """Logits by the last token and by earlier tokens: the letters are likely, each after its predecessor."""
    tokens = [token or b"" for token in tokenizer.tokens]
    size = len(tokens)
    by_last = rng.normal(size=(size, size)).astype(np.float32)
    by_earlier = rng.normal(size=(_ROWS, size)).astype(np.float32)
    for t, token in enumerate(tokens):
        if token and set(token) <= set(LETTERS.encode()):
            by_last[:, t] += 5.0
            after = LETTERS[(LETTERS.index(chr(token[-1])) + 1) % len(LETTERS)].encode()
            by_last[t, [u for u, following in enumerate(tokens) if following.startswith(after)]] += 2.0
    by_last[:, tokenizer.controls["<eos>"].id] += 2.0
    return by_last, by_earlier


def random_weights(place: Path, rng: Rng) -> LanguageModel:
    """A loaded bundle of a random pair; only its two graphs are written, to `place`."""
    models: list[tuple[ModelEntry, Graph, Tokenizer]] = []
    for role, lengths in (("target", (32, 160)), ("drafter", (16, 96))):
        tokenizer, max_length = random_tokenizer(rng), int(rng.integers(*lengths))
        graph = table_graph(place / f"{role}.onnx", *random_tables(rng, tokenizer), max_length)
        bos = tokenizer.controls["<s>"].id if rng.random() < 0.7 else None
        eos = (tokenizer.controls["<eos>"].id,)
        entry = ModelEntry(
            role, "Tables", f"{role}.onnx", role, graph.kv, graph.vocab_size, "fp32", bos, eos, 1,
            tokenizer_fingerprint=tokenizer.fingerprint,
        )  # fmt: skip
        models.append((entry, graph, tokenizer))
    (target, target_graph, target_tokenizer), (drafter, drafter_graph, drafter_tokenizer) = models
    manifest = {
        "files": {
            f"{role}.onnx": {"sha256": digit * 64} for role, digit in (("target", "a"), ("drafter", "b"))
        },
    }
    costs = Costs((1.0, 1.05, 1.1), float(rng.choice([0.05, 0.4, 2.0])), 0.01)
    template = PromptTemplate("<s>b", "<eos>", " d", "a")
    bundle = Bundle(place, target, drafter, template, costs, "map", manifest)
    vocab_map = build_vocab_map(drafter_tokenizer, target_tokenizer)
    return LanguageModel(bundle, target_graph, target_tokenizer, vocab_map, drafter_graph, drafter_tokenizer)


def without_drafter(weights: LanguageModel) -> LanguageModel:
    """The same bundle as it is loaded when memory is short."""
    return replace(weights, drafter=None, drafter_tokenizer=None)
