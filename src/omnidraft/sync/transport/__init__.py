"""How a store reaches its files: folders that several processes write to, web servers, bounds on time.

Begin with `bounded_time.py`. `sync/store.py` is what the rest of syncing uses.
"""
