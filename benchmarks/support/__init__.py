"""What several benchmarks and tests share: task data, JSON lines, small models, torch models that answer.

responses.py collects a torch target's answers with their distributions, in batches (greedy_batch.py).
Begin with responses.py.
"""
