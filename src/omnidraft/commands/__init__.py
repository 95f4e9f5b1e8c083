"""What the command line does: one module or package for each command, with its options and its tables.

`commands.terminal` holds what the commands share and imports none of them; `commands.adapt` and
`commands.sync` are the two largest commands. Begin with `generate.py`.
"""
