"""Runners of spec/13-learner.md: training positions, intervals, tensors and the head that ends drafts.

Each runner takes a vector and fails with an assertion.
Begin with run_alignment.py.
"""
