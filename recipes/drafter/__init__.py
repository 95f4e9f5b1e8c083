"""The recipe of the shipped drafter in examples/drafter, sampled from a teacher whose licence permits it.

`python -m recipes.drafter --help` lists the commands. prompts.py writes the prompts, sampler.py and
sample.py let the teacher answer them, texts.py reads free texts, corpus.py mixes all of them, train.py
trains, evaluate.py measures and publish.py writes the model. Begin with __main__.py.
"""
