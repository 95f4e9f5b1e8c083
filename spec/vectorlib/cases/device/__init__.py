"""Cases of 08-phones.md: what a device remembers.

`CASES` lists the modules; each has a function `write`.
"""

from vectorlib.cases.device import device_costs

CASES = (device_costs,)
