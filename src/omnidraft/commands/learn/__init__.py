"""`omnidraft learn`: the drafter learns from recorded answers, or from its own answers to prompts."""
