"""Static graphs for accelerators: fixed shapes, plain ONNX operators, in float32 and quantised.

`npu_providers` lists the accelerators, `static_weights` reads a checkpoint's weights, `static_graph` builds a
graph of the operators of `static_net`, and `npu_quantize` quantises it. Begin with `npu`.
"""
