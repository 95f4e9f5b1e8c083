"""`omnidraft sync`: share adapters, n-grams and traces through a store.

Begin with `sync.py`, which registers the commands. `sync_push.py` and `sync_pull.py` are for devices,
`sync_publish.py` is for those who train and publish.
"""
