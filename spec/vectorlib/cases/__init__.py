"""The inputs of all vectors, each with the reason why it is there.

`decoding/`: the rules of a round. `files/`: the file formats. `manifests/`: the manifest of a bundle.
`packing/`: archives. `device/`: costs of a device. `learning/`: learning on the device.
Begin with decoding/random.py: each module has a table of cases and a function `write`.
"""
