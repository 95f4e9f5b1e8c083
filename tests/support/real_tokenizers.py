"""Real tokenizers by the name of their folder in the task data."""

from collections.abc import Callable

from omnidraft.runtime.vocab.tokenizer import Tokenizer

TokenizerOf = Callable[[str], Tokenizer]
