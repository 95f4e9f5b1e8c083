"""Models in onnxruntime, and the adapters that change them."""
