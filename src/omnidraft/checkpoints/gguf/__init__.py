"""GGUF files of llama.cpp as checkpoints: read, checked, and their codes taken as they are.

`header` finds such a file, and reads and checks it before any library does; `config` and `tokenizer` turn its
metadata into the files of a checkpoint, `weights` gives its tensors the names of transformers, and `codes`
reads the codes of blocks. Begin with `gguf_file`.
"""
