"""Hugging Face checkpoints: read, checked, loaded and written with torch; and peft adapters.

`checkpoint` reads a directory or a hub id with the checks of `refusals`, `thin_model` maps the weights
instead of copying them, and `workplace` makes directories that take their name when complete. Begin with
`checkpoint`.
"""
