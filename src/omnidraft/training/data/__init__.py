"""The data of a training: traces of many devices as a stream of responses, and responses as tensors."""
