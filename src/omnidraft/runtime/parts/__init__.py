"""Which files of a bundle are in its directory: a device needs only some, and bundles may share a drafter.

Begin with file_places.py. Format: spec/16-archive.md.
"""
