"""The command line: one module or package for each command, with its options and its tables.

`commands.terminal` holds their shared parts and imports none of them; `commands.learn` and
`commands.sync` are the two largest commands. Begin with `generate.py`.
"""
