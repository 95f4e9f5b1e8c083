"""Export a pair of checkpoints, or adopt a pair of graphs, as a bundle. Only adopting works without torch.

`bundle` runs the steps in order, `write_model` writes one model, `measure_pair` measures the pair, and the
rooms `adopt`, `graph`, `quantize`, `npu` and `train_step` make the graphs. Begin with `bundle`.
"""
