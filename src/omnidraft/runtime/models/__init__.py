"""Models in onnxruntime, and the adapters that change them.

Each model implements the protocol of decoding/model.py: score tokens, rewind. Begin with ort_model.py.
"""
