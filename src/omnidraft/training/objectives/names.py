"""The names of the objectives and where each is; nothing here loads torch, so help texts can list them."""

OBJECTIVES = {
    "trie-kl": "kl.TrieKl",
    "omnidraft": "kl.OmniDraft",
    "forward-kl": "kl.ForwardKl",
    "uld": "likelihood.Uld",
    "alm": "likelihood.Alm",
    "vocagnolm": "likelihood.VocAgnoLm",
    "dskd": "dskd.Dskd",
}
NEED_HIDDEN = ("dskd",)  # the target's hidden states, which no trace has and no session gives
FROM_TRACES = tuple(name for name in OBJECTIVES if name not in NEED_HIDDEN)
