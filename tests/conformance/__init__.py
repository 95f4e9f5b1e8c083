"""Runs every vector of spec/vectors on the real runtime.

`decoding`, `files` and `learning` have a runner for each folder of vectors.
Begin with test_vectors.py, which maps folders to runners.
"""
