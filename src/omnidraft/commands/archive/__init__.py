"""`omnidraft pack` and `unpack`: one file with what a device needs of a bundle, and back."""
