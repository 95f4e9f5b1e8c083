"""Export a pair of checkpoints, or adopt a pair of graphs, as a bundle. Only adopting works without torch.

`bundle` runs the steps in order; `model_export`, `write_model` and `compare_model` handle one model, and the
rooms `adopt`, `graph`, `quantize`, `npu` and `train_step` make the graphs. Begin with `bundle`.
"""
