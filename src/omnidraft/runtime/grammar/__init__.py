"""Structured output: grammar files, and the tokens of a target that a grammar allows. spec/17-grammar.md."""
