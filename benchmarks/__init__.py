"""Measurements, each a command: `python -m benchmarks.NAME`; README.md lists them.

No test asserts a time. The experiments of docs/results.md are in experiments/.
Begin with README.md.
"""
