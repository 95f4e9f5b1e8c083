"""Cases of archives, and of bundles that lack files: spec/16-archive.md."""

from vectorlib.cases.packing import archive, places

CASES = (archive, places)
