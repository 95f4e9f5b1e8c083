"""Choose the form of a target's weights by what it costs in quality of text (`--quant auto`).

`torch_forms` tries forms in torch without writing a graph, `own_text` is what GPTQ calibrates on, `search`
orders the candidates and finds the products that need 8 bits. Begin with `search`.
"""
