"""The fields of a JSON object from a client: each is read by its kind; one that nobody reads is refused."""

from collections.abc import Callable
from typing import Any, TypeVar

from omnidraft.runtime.disk.json_fields import array, boolean, mapping, text
from omnidraft.serve.api_error import ApiError

Value = TypeVar("Value")
Usual = TypeVar("Usual")


class RequestFields:
    """The fields of one object; null counts as absent.

    Args:
        value: parsed JSON.
        where: the path of the object in the request, with a dot behind it; empty for the request itself.

    Raises:
        ApiError: it is not an object.
    """

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, dict):
            name = where.removesuffix(".") or "the body"
            raise ApiError(400, f"{name} is not a JSON object", param=where.removesuffix(".") or None)
        self._values = {name: each for name, each in value.items() if each is not None}
        self._where = where
        self._known: set[str] = set()

    def read(self, name: str, kind: Callable[[Any], Value], usual: Usual) -> Value | Usual:
        """The value of a field; `usual` where it is absent.

        Args:
            kind: returns the value, or raises ValueError.
        """
        self._known.add(name)
        if name not in self._values:
            return usual
        try:
            return kind(self._values[name])
        except ValueError as error:
            raise self.refusal(name, f"{self._where}{name}: {error}") from None

    def has(self, name: str) -> bool:
        """Whether a field is there; it counts as read only by the other functions."""
        return name in self._values

    def needed(self, name: str, kind: Callable[[Any], Value]) -> Value:
        """The value of a field that has to be there."""
        if name not in self._values:
            raise self.refusal(name, f"the field {self._where}{name} is missing")
        return self.read(name, kind, None)  # type: ignore[return-value]  # it is there

    def flag(self, name: str) -> bool:
        """True or false; false where it is absent."""
        return self.read(name, boolean, False)

    def only(self, name: str, *values: object) -> None:
        """Refuse every value but these, which ask for what is done anyhow."""

        def same(value: object) -> object:
            if not any(value == each and type(value) is type(each) for each in values):
                raise ValueError(f"{value!r:.80} is not supported; leave it out")
            return value

        self.read(name, same, None)

    def accept(self, *names: str) -> None:
        """Fields that change nothing about an answer."""
        self._known.update(names)

    def refuse_others(self) -> None:
        """Refuse the first field that was not read."""
        for name in self._values:
            if name not in self._known:
                shown = f"{self._where}{name}"
                raise self.refusal(name, f"the field {shown:.80} is not supported; leave it out")

    def refusal(self, name: str, message: str) -> ApiError:
        """A refusal that names a field."""
        return ApiError(400, message, param=f"{self._where}{name}"[:80], code="unsupported_value")


def texts(value: object) -> tuple[str, ...]:
    """A string, or a list of strings."""
    return (text(value),) if isinstance(value, str) else tuple(text(each) for each in array(value))


def mappings(value: object) -> list[dict[str, Any]]:
    """A list of objects."""
    return [mapping(each) for each in array(value)]
