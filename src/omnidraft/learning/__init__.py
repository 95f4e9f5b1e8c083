"""Training of the drafter on the device with numpy and onnxruntime alone; no torch."""
