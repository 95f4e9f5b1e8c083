"""Quantise the weights of a graph to 8 or 4 bits, and measure what that changes.

`quantization` names the forms, `grids` and `gptq` find scales and codes, `quantize` edits a graph in memory,
`stream` does the same weight by weight, and `parity` compares with torch. Begin with `quantize`.
"""
