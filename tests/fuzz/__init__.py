"""Mutated files: scripts that `make fuzz` runs for minutes and the tests run for seconds."""
