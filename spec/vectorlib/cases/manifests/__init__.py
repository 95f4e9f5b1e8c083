"""Cases of 03-bundle.md: manifests that open, and for each fault at least one that is refused.

`CASES` lists the modules; each has a function `write`.
Begin with manifests.py, the manifest that all of them change.
"""

from vectorlib.cases.manifests import bundle, bundle_fields, bundle_text

CASES = (bundle, bundle_text, bundle_fields)
