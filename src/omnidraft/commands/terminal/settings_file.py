"""The file of `--config`, TOML: a command reads each key by name and type, and others are refused."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from omnidraft.errors import SettingError, reason, shown

MAX_BYTES = 1 << 20
_MAX_BITS = 1023  # of a whole number, so that each is within the range of a float
Usual = TypeVar("Usual")


class SettingsFile:
    """The settings in a file, or none where there is no file.

    Args:
        path: a TOML file; None for no file.

    Raises:
        SettingError: the file cannot be read, or is not TOML.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._values = path, {} if path is None else _read(path)
        self._known: list[str] = []

    def integer(self, name: str, usual: Usual) -> int | Usual:
        """A whole number; `usual` where the file does not have it."""
        value: int | Usual = self._value(name, usual, (int,), "a whole number")
        return value

    def number(self, name: str, usual: Usual) -> float | Usual:
        """A number; `usual` where the file does not have it."""
        value: float | Usual = self._value(name, usual, (int, float), "a number")
        return float(value) if isinstance(value, int) else value

    def switch(self, name: str, usual: bool) -> bool:
        """true or false; `usual` where the file does not have it."""
        value: bool = self._value(name, usual, (bool,), "true or false")
        return value

    def text(self, name: str, usual: Usual) -> str | Usual:
        """A text; `usual` where the file does not have it."""
        value: str | Usual = self._value(name, usual, (str,), "a text in quotes")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty where the file does not have it."""
        values = self._value(name, [], (list,), "a list of texts")
        if not all(isinstance(each, str) for each in values):
            raise self._refusal(name, "is not a list of texts", 'give a list such as ["one", "two"]')
        return tuple(values)

    def number_or_auto(self, name: str, usual: int | str) -> int | str:
        """A whole number or "auto"; `usual` where the file does not have it."""
        value: int | str = self._value(name, usual, (int, str), 'a whole number or "auto"')
        if isinstance(value, str) and value != "auto":
            raise self._refusal(name, "is of the wrong type", 'give a whole number or "auto"')
        return value

    def path(self, name: str) -> Path | None:
        """A path, relative to the working directory; None where the file does not have it."""
        text = self.text(name, None)
        return None if text is None else Path(text).expanduser()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Inside, a refusal names the file that the value came from."""
        try:
            yield
        except SettingError as error:
            if self._path is None or error.message.startswith(shown(f"{self._path}: ")):
                raise
            raise SettingError(f"{self._path}: {error.message}", error.remedy, error.fault) from None

    def refuse_others(self) -> None:
        """Refuse a key that was not asked for by now.

        Raises:
            SettingError: naming the key, its value and the file.
        """
        for name in self._values:
            if name not in self._known:
                near = get_close_matches(name, self._known, 1)
                remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(self._known))}"
                raise self._refusal(name, "is no setting of this command", remedy)

    def _value(self, name: str, usual: Any, kinds: tuple[type, ...], words: str) -> Any:
        self._known.append(name)
        if name not in self._values:
            return usual
        value = self._values[name]
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise SettingError(
                f"{self._path}: {name} has {value.bit_length():,} bits", "give a smaller number"
            )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self._refusal(name, "is of the wrong type", f"give {words}")
        return value

    def _refusal(self, name: str, what: str, remedy: str) -> SettingError:
        value = self._values[name]
        given = str(value).lower() if isinstance(value, bool) else repr(value)
        return SettingError(f"{self._path}: {name} = {given:.60} {what}", remedy)


def _read(path: Path) -> dict[str, Any]:
    if find_spec("tomllib") is None:
        raise SettingError(
            f"{path} is TOML, which Python {platform.python_version()} cannot read",
            "use Python 3.11 or newer, or give the settings as options",
        )
    from omnidraft.runtime.disk.read_file import read_whole

    try:
        values: dict[str, Any] = import_module("tomllib").loads(
            read_whole(path, MAX_BYTES).decode("utf-8-sig")
        )
    except OSError as error:
        raise SettingError(f"--config {path} cannot be read ({reason(error)})", "give a TOML file") from None
    except (ValueError, RecursionError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"{error!s:.120}"
        raise SettingError(
            f"--config {path} is not TOML ({why})",
            "write each setting as NAME = VALUE, with a text in quotes and true or false in small letters",
        ) from None
    return values
