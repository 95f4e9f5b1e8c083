"""Training of the drafter on the device with numpy and onnxruntime alone; no torch.

Begin with learn_traces.py (recorded generations to an adapter). positions/ holds what is learned from, step/
the arithmetic, online/ the loop of `omnidraft learn --prompts`.
"""
