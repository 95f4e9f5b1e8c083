"""Traces: generations recorded as training data for the drafter (spec/12-trace.md)."""
