"""The drafter that comes with the package, for any target."""

from pathlib import Path

from omnidraft.errors import SettingError

PACKAGE = Path(__file__).resolve().parents[1]
IN_PACKAGE, IN_CHECKOUT = "drafter", "examples/drafter"  # pyproject.toml copies the latter into a wheel


def default_drafter() -> Path:
    """The directory of its checkpoint: in the installed package, or in the checkout that this is.

    Raises:
        SettingError: it is in neither.
    """
    for place in (PACKAGE / IN_PACKAGE, PACKAGE.parents[1] / IN_CHECKOUT):
        if (place / "config.json").is_file():
            return place
    raise SettingError(
        f"this copy of omnidraft has no drafter of its own in {PACKAGE / IN_PACKAGE}",
        "name one with --drafter, or none for a bundle that only copies from its text",
    )
