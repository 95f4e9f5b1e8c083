"""`omnidraft learn`: the drafter learns from recorded answers, or from its own answers to prompts.

Begin with `learn.py`, the command; `from_traces.py` and `while_answering.py` are its two ways.
"""
