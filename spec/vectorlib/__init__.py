"""The rules of spec/*.md once more, written for reading: plain lists, no speed, nothing of omnidraft.

`make_vectors.py` writes what these modules compute; every language compares its runtime with that.
"""
