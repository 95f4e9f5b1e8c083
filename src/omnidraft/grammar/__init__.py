"""Grammars from JSON Schemas, regular expressions and choices: byte automata for structured output.

Begin with `compile_grammar.py`; `expression.py` has what it compiles.
"""

from omnidraft.grammar.compile_grammar import file_bytes, from_choices, from_regex, from_schema
from omnidraft.grammar.partial_json import partial_json
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.grammar_file import load_grammar

__all__ = [
    "Grammar",
    "file_bytes",
    "from_choices",
    "from_regex",
    "from_schema",
    "load_grammar",
    "partial_json",
]
