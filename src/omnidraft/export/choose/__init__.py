"""Choose the form of a target's weights by what it costs in quality of text (`--quant auto`).

`torch_forms` tries forms in torch without writing a graph, and `search` orders the candidates and finds which
products need 8 bits. Begin with it. `input_factors` measures what GPTQ calibrates on.
"""
