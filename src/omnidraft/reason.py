"""Why something failed, as words for a sentence: without the names and numbers that Python has for errors."""

import asyncio


def reason(error: BaseException) -> str:
    """The first line of what an exception says, at most 200 characters, without a full stop at its end."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        return error.strerror
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    if said:
        return said[0][:200].rstrip(". ")
    if isinstance(error, TimeoutError | asyncio.TimeoutError):  # one class from Python 3.11 on
        return "no answer in time"
    return "no reason given"
