"""Measurements with commands to repeat them; run from the repository's root."""
