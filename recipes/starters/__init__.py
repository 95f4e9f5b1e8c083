"""The recipe of the starter models in examples/starters: two small targets and one drafter.

`python -m recipes.starters --help` lists the commands. data.py reads the texts, tokenizers.py learns the
vocabularies, models.py defines the models, evaluate.py measures them. Begin with __main__.py.
"""
