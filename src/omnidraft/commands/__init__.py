"""What the command line's larger commands do; each module is one of them, usable from Python too."""
