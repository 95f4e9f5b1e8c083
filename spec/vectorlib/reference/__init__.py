"""The rules of spec/*.md as plain Python: plain lists, no speed, nothing of omnidraft.

Each module names the document that it implements. A case that lies too near an edge raises `TooClose`.
Begin with generate.py, the loop; then translator.py and verifier.py.
"""
