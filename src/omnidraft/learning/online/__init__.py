"""`omnidraft learn --prompts`: answer, learn, guard the adapter, roll back (spec/13-learner.md).

Begin with adaptation.py, the loop. adapted_target.py holds one target, interval.py and guard.py decide,
profiles.py and curve.py are the files.
"""
