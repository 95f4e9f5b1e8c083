"""A bundle on disk: its manifest as values, its hashes and its signature. Nothing here imports onnxruntime.

Begin with bundle.py, which opens and verifies a bundle; model_entry.py is one model of the manifest.
"""
