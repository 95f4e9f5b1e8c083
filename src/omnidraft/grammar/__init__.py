"""Grammars from JSON Schemas, regular expressions and choices: byte automata for structured output."""

from omnidraft.grammar.compile_grammar import file_bytes, from_choices, from_regex, from_schema
from omnidraft.runtime.grammar.grammar import Grammar

__all__ = ["Grammar", "file_bytes", "from_choices", "from_regex", "from_schema"]
