"""Grammars from JSON Schemas, regular expressions and choices: byte automata for structured output."""
