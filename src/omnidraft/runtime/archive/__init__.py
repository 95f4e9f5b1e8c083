"""An archive of a bundle: one stored ZIP file whose entries can be mapped, and how it is unpacked.

Begin with open_archive.py. Format: spec/16-archive.md.
"""
