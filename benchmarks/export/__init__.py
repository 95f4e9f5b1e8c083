"""Measurements of exports: size, parity, memory, quantisation, static graphs and training steps.

Begin with export_matrix.py.
"""
