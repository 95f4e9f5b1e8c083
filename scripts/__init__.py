"""Scripts that write generated documents of the project."""
