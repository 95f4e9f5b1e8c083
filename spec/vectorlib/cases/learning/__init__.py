"""Cases of 12-trace.md and 13-learner.md: what a trace keeps, what a drafter learns from it, and when.

`CASES` lists the modules; each has a function `write`.
Begin with trace.py; alignment.py turns a response into training positions.
"""

from vectorlib.cases.learning import alignment, intervals, tensors, trace, trace_invalid

CASES = (trace, trace_invalid, alignment, intervals, tensors)
