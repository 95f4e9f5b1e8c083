"""Learning on the device: traces become responses, and those a better drafter; numpy and onnxruntime only."""
