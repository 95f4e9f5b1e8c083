"""Turn a torch model into an ONNX graph of our contract, and write the graph to disk.

`trace` records a graph of markers, `markers` and `passes` turn it into onnxruntime's operators, `lora_inputs`
adds the inputs of adapters, and `write` writes it. Begin with `skeleton`.
"""
