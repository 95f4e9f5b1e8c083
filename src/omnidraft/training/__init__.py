"""Training a drafter with torch: a trainer, its objectives, LoRA, and data from traces.

Begin with `train_drafter`, the whole training of `omnidraft train`.
"""
