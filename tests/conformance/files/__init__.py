"""Runners of the file formats: good files are read and written again, bad files name their fault.

Each runner takes a vector and fails with an assertion.
Begin with run_adapter.py.
"""
