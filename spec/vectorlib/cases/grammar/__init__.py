"""Cases of grammars: 17-grammar.md.

`CASES` lists the modules; each has a function `write`.
Begin with grammars.py, which holds the grammars; texts.py has whole generations.
"""

from vectorlib.cases.grammar import calls, files, prompts, texts, tokens

CASES = (files, tokens, texts, calls, prompts)
