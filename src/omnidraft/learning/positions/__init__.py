"""Responses of the target as training positions of the drafter; numpy only.

Begin with alignment.py, which combines target_rows.py and draft_targets.py. from_traces.py reads recorded
generations, batch.py makes arrays of a batch.
"""
