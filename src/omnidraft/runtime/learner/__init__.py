"""Learning on the device: traces become aligned responses, and those a better drafter; numpy and onnxruntime only."""
