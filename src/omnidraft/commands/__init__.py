"""What the command line does: one module or package for each command, with its options and its tables."""
