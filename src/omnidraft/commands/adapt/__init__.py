"""`omnidraft adapt`: answer prompts while the drafter learns from the answers.

Begin with `adapt.py`, the command; `adapt_loop.py` runs it on `learning.online`, and the other modules choose
the learner, sum up the curve and draw it.
"""
