"""The generator of spec/vectors: cases (inputs), a reference (expected outputs) and a writer.

`reference/` implements the rules of spec/*.md again, without omnidraft, for reading and not for speed.
Begin with reference/generate.py, the loop, and cases/decoding/verify.py, which uses most of it.
"""
