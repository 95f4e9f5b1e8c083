"""What this device remembers of bundles: which files it checked, and how fast its models are.

Begin with `state_directory.py`. Rules and format: spec/08-phones.md, "What a device remembers".
"""
