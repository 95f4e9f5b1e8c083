"""Export a pair of checkpoints as a bundle; needs torch.

`bundle` runs the steps in order, `write_model` writes one model, `measure_pair` measures the pair, and the
rooms `graph`, `quantize`, `npu` and `train_step` make the graphs. Begin with `bundle`.
"""
