"""Structured output: grammar files, and the tokens of a target that a grammar allows (spec/17-grammar.md).

Begin with `grammar.py`; `token_masks.py` says which tokens may come next, `constraint.py` is a text's.
"""
