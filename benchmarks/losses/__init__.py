"""Losses of the literature for pairs of different vocabularies, to compare with the product's objectives.

None of them is in the product. Begin with `table.py`; `trainer.py` trains a drafter with one of them.
"""
