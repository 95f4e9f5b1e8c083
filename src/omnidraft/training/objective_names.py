"""The names of the objectives and where each is; nothing here loads torch, so help texts can list them."""

OBJECTIVES = {
    "trie-kl": "objective_kl.TrieKl",
    "omnidraft": "objective_kl.OmniDraft",
    "forward-kl": "objective_kl.ForwardKl",
    "uld": "objective_likelihood.Uld",
    "alm": "objective_likelihood.Alm",
    "vocagnolm": "objective_likelihood.VocAgnoLm",
    "dskd": "objective_dskd.Dskd",
}
NEED_HIDDEN = ("dskd",)  # the target's hidden states, which no trace has and no session gives
FROM_TRACES = tuple(name for name in OBJECTIVES if name not in NEED_HIDDEN)
