"""Training steps on the graph that the bundle holds, run by onnxruntime (spec/14-train-step.md)."""
