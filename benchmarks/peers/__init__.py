"""One GGUF file and the same prompts in transformers, onnxruntime-genai, llama.cpp and omnidraft.

Begin with __main__.py, which measures; runtimes.py has a class for each runtime.
"""
