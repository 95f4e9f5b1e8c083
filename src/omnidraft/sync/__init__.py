"""Share what drafters learned: one signed file for each push and each release (spec/15-sync.md).

Begin with `record.py`. A device runs `push.py` and `pull.py`, a training side `publish.py`.
"""
