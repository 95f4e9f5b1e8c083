"""The training step of a bundle's drafter as an ONNX graph (spec/14-train-step.md).

`step_graph` traces the step with `step_forward` and `step_onnx`, `step_weights` binds the drafter's shipped
weights, and `step_parity` compares the result with torch. Begin with `train_step`.
"""
