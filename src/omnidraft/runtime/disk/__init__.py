"""Files that survive kills: write whole files, read regular files, check JSON fields, claim a directory.

Nothing here knows a format. Begin with atomic_write.py; read_file.py is its counterpart.
"""
