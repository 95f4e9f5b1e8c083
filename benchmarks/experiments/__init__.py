"""The experiments of docs/results.md: one module each, with its arms as data.

`running/` answers, trains and measures, `report/` writes the page, `results/` has a JSON-lines file for each.
Begin with learning_gain.py; `python -m benchmarks.experiments NAME` runs one.
"""

# In the order in which they are best run.
EXPERIMENTS = (
    "target_texts", "learning_rate", "learning_gain", "temperature", "drift", "cache_budget",
    "lora_rank", "cache_growth", "speed_up", "sampled_learning",
)  # fmt: skip
