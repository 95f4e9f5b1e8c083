"""Cases of the decoding rules: 04-speculation.md, 07-draft-length.md, 05-stopping.md, 01-tokens.md.

`CASES` lists the modules in the order in which a port needs them; each has a function `write`.
Begin with random.py; scenes.py holds the models of `verify`.
"""

from vectorlib.cases.decoding import (
    draft_length,
    draft_prompt,
    generate,
    lookup,
    random,
    sampling,
    stop,
    template,
    thought,
    tokenize,
    translate,
    verify,
)

CASES = (
    random, sampling, translate, verify, stop, tokenize, draft_length, lookup, generate,
    template, thought, draft_prompt,
)  # fmt: skip
