"""The cost of growth: a round and memory against vocabulary, context, n-grams, sessions and draft length.

Begin with `__main__.py`; each axis is a module with its points, its measurement and the columns of its table.
"""
