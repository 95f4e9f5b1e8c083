"""A model in several forms: size, quality and milliseconds of short passes, beside llama.cpp on its GGUF.

    python -m benchmarks.export.forms BUNDLE ... [--gguf FILE] [--texts N] [--turns N] [--threads N]

Quality is that of the export, from the manifests; `omnidraft eval --source` computes the same. Minutes and
peak memory of an export are not in the manifest: `omnidraft export` prints them at the end, and with `--json`
as `seconds` and `peak_bytes`. A pass reads 1, 2, 4 or 8 tokens behind a context of 64 and gives logits for
each. All forms take turns for each number of tokens. Before each timed pass the same one runs untimed, so
that threads are awake and weights are as near as in decoding.

llama.cpp is that of the package xllamacpp, which omnidraft does not need: its Python interface has a server
only, so `llama_decode` of its shared library is called with ctypes. The settings are llama.cpp's own: a
context of 512 tokens, and keys and values in float16, where bundles have float32. Its quality is measured
here, on the ids of the first bundle and beside torch in float32 on the values of the file.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from omnidraft.commands.terminal.output import progress_bar
from omnidraft.runtime.decoding.model import Logits, Model
from omnidraft.runtime.session.api import LanguageModel, load_bundle
from omnidraft.sample_texts import LONGEST, NAME, TextPiece, pieces_of, sample_texts
from omnidraft.text_quality import TextQuality, measure_quality, read_quality

ROWS = (1, 2, 4, 8)  # tokens of the passes
CONTEXT = 64  # tokens before them
PAUSE = 0.03  # seconds before a pair of passes, in which the threads of the form before go to sleep
PACKAGE = "xllamacpp"
_POSITIONS = 512  # of llama.cpp's context, its default
Int32s = ctypes.POINTER(ctypes.c_int32)
_SILENT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)


class Settings(ctypes.Structure):
    """llama.cpp's parameters of a model or a context: more bytes than they have, and passed on unread."""

    _fields_ = [("bytes", ctypes.c_uint64 * 128)]


class Batch(ctypes.Structure):
    """llama_batch: the tokens of a pass."""

    _fields_ = [
        ("n_tokens", ctypes.c_int32), ("token", Int32s), ("embd", ctypes.c_void_p), ("pos", Int32s),
        ("n_seq_id", Int32s), ("seq_id", ctypes.POINTER(Int32s)), ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]  # fmt: skip


class LlamaCpp:
    """A GGUF file in llama.cpp, as a `Model`; `threads` are those of a pass."""

    def __init__(self, file: Path, threads: int) -> None:
        self.max_length, self.length = _POSITIONS, 0
        self._library = library = _library()
        model = library.llama_model_load_from_file(bytes(file), library.llama_model_default_params())
        if not model:
            sys.exit(f"llama.cpp cannot load {file}; give a GGUF file of a model that it knows")
        self.vocab_size = int(library.llama_vocab_n_tokens(library.llama_model_get_vocab(model)))
        self._context = library.llama_init_from_model(model, library.llama_context_default_params())
        if not self._context or library.llama_n_ctx(self._context) != _POSITIONS:
            sys.exit(f"llama.cpp makes no context of {_POSITIONS} tokens; another version of {PACKAGE} may")
        library.llama_set_n_threads(self._context, threads, threads)
        self._memory = library.llama_get_memory(self._context)
        self._batch = library.llama_batch_init(_POSITIONS, 0, 1)
        for i in range(_POSITIONS):
            self._batch.n_seq_id[i], self._batch.seq_id[i][0], self._batch.logits[i] = 1, 0, 1
        self._tokens = np.ctypeslib.as_array(self._batch.token, (_POSITIONS,))
        self._positions = np.ctypeslib.as_array(self._batch.pos, (_POSITIONS,))

    def score(self, tokens: Sequence[int], num_logits: int | None = None) -> Logits:
        """As `Model.score`; all rows are computed."""
        self._batch.n_tokens = n = len(tokens)
        self._tokens[:n] = tokens
        self._positions[:n] = np.arange(self.length, self.length + n)
        if self._library.llama_decode(self._context, self._batch):
            sys.exit(f"llama.cpp refused a pass of {n} tokens after {self.length}")
        self.length += n
        logits = np.ctypeslib.as_array(self._library.llama_get_logits(self._context), (n, self.vocab_size))
        return logits if num_logits is None else logits[n - num_logits :]

    def rewind(self, length: int) -> None:
        """As `Model.rewind`."""
        if not self._library.llama_memory_seq_rm(self._memory, 0, length, -1):
            sys.exit(f"llama.cpp cannot rewind to {length} tokens")
        self.length = length


def _library() -> Any:
    """The functions of llama.cpp that are used here; they are exported by the package's extension."""
    try:
        package = importlib.import_module(PACKAGE)
    except ImportError:
        sys.exit(f"--gguf needs the package {PACKAGE}: install it in a folder, and name that in PYTHONPATH")
    library = ctypes.CDLL(package.xllamacpp.__file__)
    p, i32 = ctypes.c_void_p, ctypes.c_int32
    types: dict[str, tuple[Any, list[Any]]] = {
        "model_default_params": (Settings, []), "context_default_params": (Settings, []),
        "model_load_from_file": (p, [ctypes.c_char_p, Settings]), "model_get_vocab": (p, [p]),
        "vocab_n_tokens": (i32, [p]), "init_from_model": (p, [p, Settings]), "n_ctx": (ctypes.c_uint32, [p]),
        "set_n_threads": (None, [p, i32, i32]), "get_memory": (p, [p]), "log_set": (None, [p, p]),
        "memory_seq_rm": (ctypes.c_bool, [p, i32, i32, i32]), "batch_init": (Batch, [i32, i32, i32]),
        "decode": (i32, [p, Batch]), "get_logits": (ctypes.POINTER(ctypes.c_float), [p]),
    }  # fmt: skip
    for name, (result, arguments) in types.items():
        function = getattr(library, f"llama_{name}")
        function.restype, function.argtypes = result, arguments
    library.llama_log_set(ctypes.cast(_SILENT, p), None)
    return library


@dataclass
class Arm:
    """One line of the table: a form, bytes of its files, ids of a text, seconds of passes by tokens."""

    name: str
    bytes: int
    model: Model
    text: Sequence[int]
    quality: TextQuality | None  # None where the manifest tells none
    seconds: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in ROWS})

    def time(self, n: int) -> None:
        """Time one pass of n tokens, after another one."""
        time.sleep(PAUSE)
        for _ in range(2):
            self.model.rewind(CONTEXT)
            started = time.perf_counter()
            self.model.score(self.text[CONTEXT : CONTEXT + n])
            seconds = time.perf_counter() - started
        self.seconds[n].append(seconds)

    def cells(self) -> list[str]:
        """The line of the table."""
        q, quality = self.quality, ["-"] * 3
        if q is not None and q.source_perplexity is not None:
            of_source = f"{q.perplexity:.2f} ({q.source_perplexity:.2f}), {100 * q.loss:+.1f} %"
            quality = [of_source, f"{q.kl:.2g}", f"{q.agreement:.1%} of {q.tokens:,}"]
        times = [f"{1000 * median(self.seconds[n]):.2f}" for n in ROWS]
        return [self.name, f"{self.bytes / 1e6:.1f}", *quality, *times]


def pieces(loaded: LanguageModel) -> list[TextPiece]:
    """The built-in texts in the ids of a bundle's target."""
    entry = loaded.bundle.target
    start = [] if entry.bos_id is None else [entry.bos_id]
    return pieces_of(sample_texts(), loaded.target_tokenizer, loaded.bundle.prompt, start, LONGEST)


def text(loaded: LanguageModel) -> Sequence[int]:
    """The first built-in text that is long enough for a context and the longest pass."""
    return next(each.ids for each in pieces(loaded) if len(each.ids) >= CONTEXT + max(ROWS))


def bundle_arm(loaded: LanguageModel) -> Arm:
    """The target of a bundle."""
    bundle, told = loaded.bundle, read_quality(loaded.bundle.manifest)
    files = bundle.manifest["files"].items()
    size = sum(record["bytes"] for file, record in files if file.startswith("target/"))
    quality = None if told is None else told.whole
    return Arm(bundle.target.quantization, size, loaded.target.new_model(), text(loaded), quality)


def llama_arm(file: Path, loaded: LanguageModel, threads: int, texts: int | None) -> Arm:
    """The file in llama.cpp, measured on the first texts in the ids of a bundle's target."""
    from omnidraft.checkpoints.checkpoint import read_checkpoint
    from omnidraft.export.measure_quality import source_rows

    model, quality = LlamaCpp(file, threads), None
    if model.vocab_size != loaded.bundle.target.vocab_size:
        sys.exit(f"{file} has another vocabulary than {loaded.bundle.path}; give the file of the same model")
    if parts := pieces(loaded)[:texts]:
        source = source_rows(read_checkpoint(str(file)))
        with progress_bar("text in llama.cpp") as bar:
            quality = measure_quality(model, parts, source, name=NAME, progress=bar.step).whole
    return Arm(f"llama.cpp: {file.name}", file.stat().st_size, model, text(loaded), quality)


def take_turns(arms: Sequence[Arm], turns: int) -> None:
    """Time all passes of all arms."""
    for arm in arms:
        arm.model.rewind(0)
        arm.model.score(arm.text[:CONTEXT], num_logits=1)
    with progress_bar("passes") as bar:
        for turn in range(turns):
            bar.step(turn, turns)
            for n in ROWS:
                for arm in arms:
                    arm.time(n)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    parser.add_argument("--gguf", type=Path, help="a file for llama.cpp, of the first bundle's model")
    parser.add_argument("--texts", type=int, help="pieces of text for llama.cpp, 0 for none (default: all)")
    parser.add_argument("--turns", type=int, default=21, help="timed passes of each kind")
    parser.add_argument("--threads", type=int, default=2, help="of a pass")
    options = parser.parse_args()
    load = partial(load_bundle, threads=options.threads, drafter=False, measure="never")
    bundles = [load(each) for each in options.bundles]
    arms = [bundle_arm(each) for each in bundles]
    if options.gguf:
        arms.append(llama_arm(options.gguf, bundles[0], options.threads, options.texts))
    take_turns(arms, options.turns)
    head = ["form", "MB", "perplexity (source)", "KL, nats", "same token", *(f"{n}, ms" for n in ROWS)]
    for cells in (head, ["---"] * len(head), *(arm.cells() for arm in arms)):
        print(f"| {' | '.join(cells)} |")
    engines = f"onnxruntime {version('onnxruntime')}"
    if options.gguf:
        engines += f", {PACKAGE} {version(PACKAGE)} ({importlib.import_module(PACKAGE).get_system_info()})"
    print(f"\n{engines}; {options.threads} threads; medians of {options.turns} passes.")


if __name__ == "__main__":
    main()
