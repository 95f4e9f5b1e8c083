"""The data of a training: traces of many devices as a stream of responses, and responses as tensors.

trace_source.py finds and reads segments, trace_stream.py orders and aligns their responses in one or several
processes (processes.py), batch.py makes the tensors. Begin with trace_stream.py.
"""
