"""Choose the form of a target's weights by what it costs in quality of text (`--quant auto`).

`torch_forms` tries forms in torch without writing a graph; `own_text` and `input_factors` are what GPTQ
calibrates on; `search` orders the candidates and finds which products need 8 bits. Begin with it.
"""
