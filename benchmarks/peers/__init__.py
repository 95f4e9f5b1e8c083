"""Beside the assisted generation of transformers: universal assisted generation (UAG) and TLI."""
