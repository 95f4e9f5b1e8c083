"""Store the weights of a graph: as float32, rounded to 8 or 4 bits, or with the codes of a GGUF file.

`quantization` names the forms, `grids` and `gptq` round, `coded` writes codes as operators, `parity` compares
graphs with torch. Begin with `stream`, which writes a graph weight by weight.
"""
