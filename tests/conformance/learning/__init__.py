"""Runners of spec/13-learner.md: training positions, intervals and tensors.

Each runner takes a vector and fails with an assertion.
Begin with run_alignment.py.
"""
