"""`omnidraft inspect` and `wipe`: what is in a bundle, an archive, an adapter, a cache or a trace."""
