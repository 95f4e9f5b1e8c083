"""What the experiments share: cached answers of the targets, training, measuring, and the results on disk.

Begin with results.py (what an arm is), then answers.py, training.py and measure.py.
The starter pairs are in pairs.py, the prompts in tasks.py, the losses with their rates in recipes.py.
"""
