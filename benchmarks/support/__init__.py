"""What several benchmarks and tests share: task prompts, small models, torch models that answer, peak memory.

Begin with responses.py, which collects a torch target's answers with their distributions, in batches.
"""
