"""Sizes in bytes, in words."""


def size(number: int) -> str:
    """A number of bytes in words, as `1.5 MB`."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000.0:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000.0
    return f"{value:.2f} GB"
