"""Fields of a manifest, checked: each function gives a value of its kind or says what it found instead."""

from typing import Any


def text(value: object) -> str:
    """Text; TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def whole(value: object, least: int, most: int = (1 << 31) - 1) -> int:
    """A whole number within bounds; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r:.80} is no whole number from {least} to {most}")
    return value


def number(value: object) -> float:
    """A number of a size that any float holds; ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e30 <= value <= 1e30:
        raise ValueError(f"{value!r:.80} is no number")
    return float(value)


def listed(value: object) -> list[Any]:
    """A list; TypeError otherwise."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.80} is no list")
    return value


def dictionary(value: object) -> dict[str, Any]:
    """An object; TypeError otherwise."""
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is no object")
    return value


def check_like(value: Any, own: float | list[float]) -> None:
    """Refuse a value of a state that is not of the kind of our own: amounts, counts, or as many amounts."""
    if isinstance(own, list):
        if not isinstance(value, list) or len(value) != len(own):
            raise ValueError(f"not {len(own)} numbers")
        for each in value:
            check_like(each, 0.0)
    elif not isinstance(value, int if isinstance(own, int) else (int, float)) or isinstance(value, bool):
        raise ValueError(f"{value!r:.20} is no number of its kind")
    elif not 0 <= value < 1e9:
        raise ValueError(f"{value!r:.20} is no amount")
