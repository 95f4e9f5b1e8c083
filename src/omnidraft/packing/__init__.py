"""Pack a bundle for a device, and share a drafter between bundles on disk. Format: spec/16-archive.md.

Begin with device_files.py. Reading and unpacking are in `runtime.archive`, since phones do them too.
"""
