"""Measurements of exports: forms of weights beside llama.cpp, and static graphs on an accelerator.

Begin with forms.py.
"""
