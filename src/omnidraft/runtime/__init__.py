"""The reference runtime: numpy, onnxruntime and tokenizers, mirrored file for file on the phones.

decoding/ is the algorithm, vocab/ the vocabularies, session/ what a program uses; the other packages are the
edges: files, bundles, onnxruntime, traces. Begin with decoding/speculate.py, the loop.
"""
