"""`omnidraft learn --prompts`: answer, learn, guard the adapter, roll back (spec/13-learner.md)."""
