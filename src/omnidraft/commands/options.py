"""What the values of the command line's options mean, and the refusal of those that mean nothing."""

from pathlib import Path
from typing import Any

from omnidraft.errors import SettingError


def quantization(name: str, block: int) -> Any:
    """How to store weights, by the name of a quantisation."""
    from omnidraft.export.quantize import Quantization

    bits = {"fp32": 32, "int8": 8, "int4": 4}
    if name not in bits:
        raise SettingError(f'quantisation "{name}" is unknown; use {", ".join(bits)}')
    return Quantization(bits[name], block)


def lengths(text: str) -> Any:
    """The number of draft tokens, or "auto"."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingError(f'--num-draft-tokens "{text}" is neither a number nor auto; 4 is usual') from None


def lines(file: Path) -> list[str]:
    """The lines of a file of prompts."""
    try:
        found = [line.strip() for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{file} cannot be read as UTF-8 text ({error}); give a prompt on each line"
        ) from None
    if not found:
        raise SettingError(f"{file} holds no prompts; give one on each line")
    return found


def short(name: str) -> str:
    """A tokenizer's name for a table's title."""
    path = Path(name)
    return path.parent.name if path.name == "tokenizer.json" else path.name
