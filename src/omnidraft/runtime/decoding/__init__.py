"""The algorithm with numpy alone: no file, no clock, no onnxruntime. A port mirrors these files.

Begin with speculate.py, the loop. Then read in the order data moves: drafter.py -> translator.py ->
decision.py -> verifier.py; draft_length.py says how many tokens to draft.
"Method section N" in a docstring is that section of docs/method.md.
"""
