"""Runners of the decoding rules: one module for the vectors of one or two folders.

Each runner takes a vector and fails with an assertion.
Begin with run_translate.py.
"""
