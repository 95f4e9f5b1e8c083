"""The rules of traces and of learning on the device: 12-trace.md, 13-learner.md, 14-train-step.md.

Begin with trace.py; alignment.py makes training positions of it, and step_calls.py inputs of a step.
"""
