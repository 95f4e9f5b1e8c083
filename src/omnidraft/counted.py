"""How many of something there are, in words: one place that knows the plural."""


def counted(number: int, what: str) -> str:
    """A number before its noun, as `1 step`, `2 steps` or `1,024 steps`; `what` is the singular."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
