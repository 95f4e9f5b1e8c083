"""`omnidraft demo`: a real model, fetched, exported, timed, and timed again after the drafter learned.

Begin with `demo.py`, the command; `real_models.py` fetches the models and `show_demo.py` prints and draws.
"""
