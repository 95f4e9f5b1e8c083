"""Training steps on the graph that the bundle holds, run by onnxruntime (spec/14-train-step.md).

Begin with learner.py, the interface, and ort_learner.py, its implementation. state_file.py is the checkpoint.
"""
