"""The files that a second implementation reads and writes: archives, tensors, costs of a device.

Begin with safetensors.py; the manifest and the text of JSON are beside this package.
"""
