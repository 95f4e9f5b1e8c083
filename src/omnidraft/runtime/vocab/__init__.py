"""Two vocabularies as bytes: how a drafter's tokens spell the tokens of a target.

The vocabulary map is built at export, the n-gram cache is learned while generating, and the trie holds the
spellings that are active. Begin with vocab_map.py.
"""
