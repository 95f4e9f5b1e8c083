"""The inputs of all vectors, each with the reason why it is there.

`decoding/`: the rules of a round. `files/`: the file formats. `learning/`: what a drafter learns from, and when.
Begin with decoding/random.py: each module has a table of cases and a function `write`.
"""
