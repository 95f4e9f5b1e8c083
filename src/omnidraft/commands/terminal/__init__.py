"""What every command shares in a terminal: options, progress, printing, opening a session, Ctrl-C.

No module here imports a command. Begin with `options.py`, which holds the options that several commands have,
and `open_session.py`.
"""
