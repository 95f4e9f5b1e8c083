"""What every command shares in a terminal: options, progress, printing, opening a session, Ctrl-C."""
