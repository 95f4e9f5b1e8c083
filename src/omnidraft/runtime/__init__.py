"""The reference runtime: numpy, onnxruntime and tokenizers, mirrored file for file on the phones.

Read in the order data moves: `drafter` -> `translator` -> `verifier` -> `ngram_cache`, joined in `round`.
"""
