"""Cases of 13-learner.md: what a drafter learns from, and what happens at the end of an interval.

`CASES` lists the modules; each has a function `write`.
Begin with alignment.py, which turns a response into training positions.
"""

from vectorlib.cases.learning import alignment, intervals, tensors

CASES = (alignment, intervals, tensors)
