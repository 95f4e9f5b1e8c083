"""Checks of `omnidraft doctor`: this machine, and a bundle on it. The core packages are enough.

Begin with examine.py, the list of all checks in order; check.py is the result of one check.
"""
