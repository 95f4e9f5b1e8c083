"""How models that come with this repository were made; nothing here is part of the package omnidraft.

Each recipe is a package that `python -m` runs. drafter/ is the only one: begin with its __main__.py.
"""
