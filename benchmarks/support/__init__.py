"""What several benchmarks and tests share: task data, small models, and torch models that answer prompts.

responses.py collects a torch target's answers with their distributions, in batches (greedy_batch.py).
Begin with responses.py.
"""
