"""Write a model's compiled tokenizer, if its ids are those of the package `tokenizers` on a fixed sample."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

from omnidraft.errors import TokenizerError
from omnidraft.export.tokenizer.compile import compile_tokenizer
from omnidraft.runtime.disk.atomic_write import write_atomically
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.library_tokenizer import LibraryTokenizer
from omnidraft.runtime.vocab.tokenizer import Tokenizer, fingerprint
from omnidraft.runtime.vocab.tokenizer_file import read_tokenizer_file
from omnidraft.sample_prompts import PROMPTS

COMPILED = "tokenizer.bin"
_RANDOM_TEXTS, _SEED = 400, 2
# Parts of the random texts: white space of every kind, contractions, digits, marks, scripts, signs, emoji.
_PARTS = [
    " ", "  ", "\n", "\r\n", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u200b", "\u2028",
    "\u3000", "\ufeff", "\x00", "don't", "WE'LL", "'S", "\u017f", "Hello", " world", "na\xefve", "\ufb01n",
    "\u0130stanbul", "\u01c5", "stra\xdfe", "1", "23", "4567", "\xb2", "\xbd", "\u0663\u0664", "\u2167",
    "e\u0301", "\u0301", "\u0345\u0323", "\uac00", "\u1100\u1161", "\u4f60\u597d",
    "\u3072\u3089\u304c\u306a", "\u30ab\u30bf", "\u0e44\u0e17\u0e22",
    "\u0939\u093f\u0928\u094d\u0926\u0940", "\u05e2\u05d1\u05e8\u05d9\u05ea", "\u202e", "!", "...", "://",
    "\u2019", "\u2014", "$", "\u20ac", "_", "\u2581", "<0x41>", "<s>", "<|x|>", "[INST]", "\U0001f600",
    "\U0001f468\u200d\U0001f469", "\U0001d11e", "\U00020000", "\U000e0041", "\uffff", "\U0010fffd",
]  # fmt: skip


def write_compiled(file: Path, tokenizer: LibraryTokenizer) -> str:
    """Compile a tokenizer.json and write the result beside it.

    Returns:
        "" where the compiled tokenizer was written; else why not, as the end of a sentence.
    """
    try:
        data = compile_tokenizer(json.loads(file.read_text(encoding="utf-8")), tokenizer)
        compiled = CompiledTokenizer(read_tokenizer_file(memoryview(data)))
    except TokenizerError as error:
        return error.message
    difference = difference_of(compiled, tokenizer)
    if not difference:
        write_atomically(file.with_name(COMPILED), data, shared=True)
    return difference


def difference_of(compiled: CompiledTokenizer, tokenizer: LibraryTokenizer) -> str:
    """What the two tokenizers disagree about, as the end of a sentence; "" where they agree on the sample."""
    theirs: Tokenizer = tokenizer
    same = (
        list(compiled.tokens) == list(theirs.tokens)
        and dict(compiled.controls) == dict(theirs.controls)
        and compiled.byte_ids == theirs.byte_ids
        and fingerprint(compiled.tokens, compiled.controls.values()) == theirs.fingerprint
    )
    if not same:
        return "the compiled vocabulary is another than that of the package tokenizers"
    for text in sample_texts():
        if compiled.encode(text) != theirs.encode(text):
            return f"the compiled tokenizer and the package tokenizers give other ids for {text!r:.80}"
        if compiled.spell(text.encode()) != theirs.spell(text.encode()):
            return f"the compiled tokenizer and the package tokenizers spell {text!r:.80} with other ids"
    return ""


def sample_texts() -> Iterator[str]:
    """The texts that both tokenizers are compared on: prompts, and random ones, the same every time."""
    yield from PROMPTS
    numbers = random.Random(_SEED)
    for _ in range(_RANDOM_TEXTS):
        parts = [numbers.choice(_PARTS) for _ in range(numbers.randrange(1, 12))]
        parts.append(
            chr(numbers.choice((numbers.randrange(0x20, 0xD800), numbers.randrange(0xE000, 0x110000))))
        )
        yield "".join(parts)
