"""`omnidraft pack` and `unpack`: one file with the parts of a bundle that a device needs, and back."""
