"""The recipe of the shipped drafter in examples/drafter, sampled from a teacher whose licence permits it.

`python -m recipes.drafter --help` lists the commands. prompts.py writes the prompts, sampler.py and sample.py let
the teacher answer them, corpus.py reads and mixes all texts, train.py trains, evaluate.py measures.
"""
