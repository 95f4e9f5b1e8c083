"""What an answer is made of: a thought (01-tokens.md) and calls of tools (17-grammar.md)."""
