"""Write what the Python runtime computes on this machine's kernels; table.py compares machines.

    python scripts/arm64/measure.py BUNDLES RESULT NAME ...

BUNDLES has a folder for each bundle, and RESULT becomes a JSON file. Nothing is timed. A NAME is one of:

- `tokenizers`: digests of the ids of `LINES` lines in every tokenizer of the bundles.
- a bundle: how far logits lie apart when a text is read in passes of other lengths, and greedy ids: plain,
  drafted, and both with `bitwise`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from omnidraft import TextSession, load_bundle
from omnidraft.export.tokenizer.compile import sample_texts
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.decoding.model import Logits, Model
from omnidraft.runtime.models.even_model import EvenModel
from omnidraft.runtime.models.onnx_session import ENGINE
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.session.modes import Mode
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer
from omnidraft.sample_prompts import PROMPTS

ROOT = Path(__file__).resolve().parents[2]
LINES = 2_000
TEXTS, TOKENS, DRAFT = 2, 24, 4  # greedy texts of a bundle, tokens of each, and tokens of a draft
READ = 64  # tokens of the text that is read in other passes; the longest pass of `EvenModel`
WIDTHS = {1: 24, 3: 24, 4: 24, 5: 25, 6: 24, 7: 28, 8: 24, READ: READ}  # of a pass, and tokens read with it
BITWISE_WIDTHS = {1: 12, 3: 24, 8: 24}  # the same for `EvenModel`, which runs passes of its own lengths
# Bits of AT_HWCAP and AT_HWCAP2 of Linux on ARM64: which kernels onnxruntime can choose.
FEATURES = {"dot products": (16, 20), "SVE": (16, 22), "int8 matrix products": (26, 13)}


def processor() -> str:
    """The instruction set, and on ARM64 the features that kernels are chosen by."""
    if platform.machine() != "aarch64":
        return platform.machine()
    auxiliary = ctypes.CDLL(None).getauxval
    auxiliary.restype, auxiliary.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    found = [name for name, (vector, bit) in FEATURES.items() if auxiliary(vector) >> bit & 1]
    return f"ARM64 with {', '.join(found) or 'neither dot products nor SVE'}"


def lines() -> list[str]:
    """The texts that every export checks, then lines of this repository's documents, spread over all."""
    texts = list(sample_texts())
    found = [line for file in sorted(ROOT.glob("*/*.md")) for line in file.read_text("utf-8").split("\n")]
    written = list(dict.fromkeys(line for line in found if line))
    rest = LINES - len(texts)
    return texts + [written[i * len(written) // rest] for i in range(rest)]


def tokenizer_digests(bundles: Path) -> dict[str, list[str]]:
    """A digest of the ids of each line, by tokenizer."""
    found, texts = dict[str, list[str]](), lines()
    for name, tokenizer in tokenizers(bundles):
        ids = (np.array(tokenizer.encode(text), dtype="<u4").tobytes() for text in texts)
        found[name] = [hashlib.sha256(each).hexdigest()[:16] for each in ids]
    return found


def tokenizers(bundles: Path) -> Iterator[tuple[str, Tokenizer]]:
    """Every tokenizer of the bundles once, with its name."""
    seen = set[str]()
    for place in sorted(path for path in bundles.iterdir() if path.is_dir()):
        bundle = open_bundle(place)
        for role, entry in (("target", bundle.target), ("drafter", bundle.drafter)):
            if entry.tokenizer_fingerprint in seen:
                continue
            seen.add(entry.tokenizer_fingerprint)
            yield f"{role} of {place.name}, library", LibraryTokenizer.from_file(bundle.file(entry.tokenizer))
            if entry.compiled_tokenizer is not None:
                file = bundle.file(entry.compiled_tokenizer)
                yield f"{role} of {place.name}, compiled", CompiledTokenizer.from_file(file)


def bundle_result(place: Path) -> dict[str, Any]:
    """Differences of rows and greedy ids of one bundle."""
    loaded = load_bundle(place, measure="never")
    target = loaded.bundle.target
    form = target.quantization + (f", {target.kv.type} KV" if target.kv.type != "float32" else "")
    return {"form": form, "rows": row_differences(loaded), "ids": greedy(loaded)}


def row_differences(loaded: LanguageModel) -> dict[str, float | None]:
    """The largest difference of logits to passes of two tokens, by the length of a pass; None: the same bits.

    Keys with the word bitwise are of the target in `EvenModel`.
    """
    ids = loaded.target_tokenizer.encode(" ".join(PROMPTS))[:READ]
    assert len(ids) == READ
    model = loaded.target.new_model()
    pairs = read(model, ids, 2)
    found = {
        str(width): difference(read(model, ids[:count], width), pairs) for width, count in WIDTHS.items()
    }
    model.rewind(0)
    even = EvenModel(model)
    for width, count in BITWISE_WIDTHS.items():
        found[f"{width} bitwise"] = difference(read(even, ids[:count], width), pairs)
    return found


def read(model: Model, ids: Sequence[int], width: int) -> Logits:
    """The logits of all ids, read from an empty context in passes of one length."""
    assert len(ids) % width == 0
    model.rewind(0)
    return np.concatenate([model.score(ids[at : at + width]).copy() for at in range(0, len(ids), width)])


def difference(rows: Logits, others: Logits) -> float | None:
    """The largest difference to the first rows of others; None where all bits are the same."""
    others = others[: len(rows)]
    return None if rows.tobytes() == others.tobytes() else float(np.abs(rows - others).max())


def greedy(loaded: LanguageModel) -> dict[str, list[list[int]]]:
    """Ids of the greedy texts, by how they were decoded."""
    arms: tuple[tuple[str, Mode, bool], ...] = (
        ("plain", "plain", False), ("drafted", "trie", False),
        ("plain, bitwise", "plain", True), ("drafted, bitwise", "trie", True),
    )  # fmt: skip
    sessions = {bitwise: TextSession(loaded, bitwise=bitwise) for bitwise in (False, True)}
    return {name: said(sessions[bitwise], mode) for name, mode, bitwise in arms}


def said(session: TextSession, mode: Mode) -> list[list[int]]:
    """Ids of a greedy answer to each prompt."""
    given: dict[str, Any] = {"max_new_tokens": TOKENS, "num_draft_tokens": DRAFT, "ignore_eos": True}
    return [session.generate(prompt, mode=mode, **given).finish().token_ids for prompt in PROMPTS[:TEXTS]]


def main(bundles: Path, file: Path, names: Sequence[str]) -> None:
    before = json.loads(file.read_text("utf-8")) if file.exists() else {"bundles": {}}
    result = before | {"processor": processor(), "onnxruntime": ENGINE}
    for name in names:
        if name == "tokenizers":
            result["tokenizers"] = tokenizer_digests(bundles)
        else:
            result["bundles"][name] = bundle_result(bundles / name)
        file.write_text(json.dumps(result), encoding="utf-8")
        print(f"{file.stem}: {name}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
