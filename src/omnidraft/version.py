"""The version of this package, which files that it writes carry."""

__version__ = "0.1.0"
