"""Compiled tokenizers for vectors: an assembler of programs, a writer of files, and the expected ids.

Nothing of omnidraft is imported; the package `tokenizers` says which ids are right. Begin with kinds.py.
"""
