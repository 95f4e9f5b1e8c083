"""Benchmarks, which print the figures of docs/benchmarks.md: see README.md in this folder.

No test asserts a time. Begin with real_models.py; support/ holds what several of them read.
"""
