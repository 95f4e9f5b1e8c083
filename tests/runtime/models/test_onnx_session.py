"""Options of sessions: how long the threads of a pass spin."""

import pytest

from omnidraft.runtime.models.onnx_session import ENGINE, session_options, spinning

SLEEP = {"session.force_spinning_stop": "1"}
SPIN = {"session.intra_op.spin_duration_us": "200"}


@pytest.mark.parametrize(
    ("engine", "entries"),
    [
        ("1.25.1", SLEEP),
        ("1.23.0", SLEEP),
        ("1.26.0", SPIN),
        ("1.31.1", SPIN),
        ("2.0.0", SPIN),
        ("1.32.0.dev1", SPIN),
    ],
)
def test_threads_sleep_soon_after_a_pass_in_every_engine(engine: str, entries: dict[str, str]) -> None:
    assert spinning(engine) == entries


def test_a_session_has_the_entries_of_this_engine_and_those_that_are_asked_for() -> None:
    options = session_options(2, {"session.disable_prepacking": "1"})
    for key, value in {**spinning(ENGINE), "session.disable_prepacking": "1"}.items():
        assert options.get_session_config_entry(key) == value
