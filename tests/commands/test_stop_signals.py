"""A signal while a module is imported: it waits for the end of the import, and ends the program then."""

from __future__ import annotations

import importlib
import signal
import sys
import types
from pathlib import Path

import pytest

from omnidraft.commands.terminal import stop_signals
from omnidraft.commands.terminal.stop_signals import StopSignals

MODULE = """
import signal, sys
from omnidraft.commands.terminal.stop_signals import StopSignals
StopSignals().handle(signal.SIGTERM, sys._getframe())
whole = True
"""


def test_an_import_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler raised in an import of onnxruntime became an ImportError with a traceback."""
    sent: list[int] = []
    monkeypatch.setattr(stop_signals, "_send_later", sent.append)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "imported_while_a_signal_came.py").write_text(MODULE)
    assert importlib.import_module("imported_while_a_signal_came").whole
    assert sent == [signal.SIGTERM]
    for number, raised in ((signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)):
        with pytest.raises(raised):
            StopSignals().handle(number, sys._getframe())
    assert sent == [signal.SIGTERM]


def test_an_engine_that_is_being_imported_has_no_runs_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, stop_signals._ENGINE, types.ModuleType("half"))
    StopSignals().arrived(signal.SIGTERM)
    ended: list[None] = []
    monkeypatch.setattr(stop_signals, "AGAIN", 0.0)
    monkeypatch.setitem(
        sys.modules, stop_signals._ENGINE, types.SimpleNamespace(end_all=lambda: ended.append(None))
    )
    StopSignals().arrived(signal.SIGTERM)
    assert len(ended) == stop_signals.ATTEMPTS


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_that_is_ignored_stays_so(before: signal.Handlers) -> None:
    """`nohup` ignores the end of the terminal for a program; else the n-grams of `--cache` are saved."""
    original = signal.signal(signal.SIGHUP, before)
    try:
        with stop_signals.stop_signals():
            during = signal.getsignal(signal.SIGHUP)
        assert during == (before if before == signal.SIG_IGN else stop_signals.STOP.handle)
        assert signal.getsignal(signal.SIGHUP) == before
    finally:
        signal.signal(signal.SIGHUP, original)
