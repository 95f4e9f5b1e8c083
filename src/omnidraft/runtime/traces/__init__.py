"""Traces: generations recorded as training data for the drafter (spec/12-trace.md).

Begin with trace.py, the values of a record. recorder.py and tracer.py make them from the rounds of the loop;
trace_store.py writes them, trace_reader.py reads them.
"""
