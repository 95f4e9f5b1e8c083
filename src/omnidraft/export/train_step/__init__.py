"""The training step of a bundle's drafter as ONNX graphs, for learning on the device (spec/14-train-step.md).

`step_graph` and `head_step_graph` trace the steps with `step_forward` and `step_onnx`, `step_weights` binds
the drafter's shipped weights, and `step_parity` compares the result with torch. Begin with `train_step`.
"""
