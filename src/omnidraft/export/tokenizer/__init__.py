"""Compile a tokenizer.json to one file that runs without regular expressions (spec/02-tokenizer.md).

`regex` reads a pattern, `instructions` makes a program of it, `code_points` asks the library for classes,
`chain` turns nodes into steps, `tables` writes the file. Begin with `compile`.
"""
