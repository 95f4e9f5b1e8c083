"""Adapters where people give them: to chat, generate and load; and a manifest that says nonsense of them."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path

import pytest

from omnidraft import cli, load
from omnidraft.commands.chat.chat_loop import Chat
from omnidraft.runtime.bundle.manifest_file import MANIFEST
from omnidraft.runtime.models.adapter_file import write_adapter
from omnidraft.runtime.session.api import GenerationConfig, LanguageModel, TextSession, load_bundle
from support.adapters import PROMPT, adapter, adapter_of, drafters, refusal


@pytest.fixture(scope="module")
def weights(bundle: Path) -> LanguageModel:
    return load_bundle(bundle, threads=1)


@pytest.fixture
def session(weights: LanguageModel) -> TextSession:
    return TextSession(weights)


def test_chat_swaps_and_takes_away(session: TextSession, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_adapter(path, drafters(session, 0)[0])
    lines = f"Hello\n/adapter {path}\nHello again\n/adapter nowhere\n/adapter\n/adapter none\n/quit\n"
    out = io.StringIO()
    Chat(session, GenerationConfig(max_new_tokens=4), io.StringIO(lines), out).run()
    output = out.getvalue()
    assert "adapters: rank 4 for the drafter\n" in output and "adapters: none\n" in output
    assert "nowhere is refused: it cannot be read" in output and "/adapter needs a file" in output


def test_generate_takes_an_adapter(
    bundle: Path, session: TextSession, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    learned = adapter_of(session.bundle, "drafter", size=0.5)  # large enough to spoil every draft
    path = tmp_path / "a.safetensors"
    write_adapter(path, learned)
    arguments = ["omnidraft", "generate", str(bundle), PROMPT, "-n", "24", "-k", "3", "--json"]
    counts = []
    for more in ([], ["--adapter", str(path)]):
        monkeypatch.setattr("sys.argv", [*arguments, *more])
        with suppress(SystemExit):
            cli.main()
        counts.append(json.loads(capsys.readouterr().out))
    assert counts[0]["token_ids"] == counts[1]["token_ids"]
    assert counts[0]["accepted"] != counts[1]["accepted"]
    monkeypatch.setattr("sys.argv", [*arguments, "--adapter", str(bundle / MANIFEST)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    error = capsys.readouterr().err
    assert stop.value.code == 1
    assert "manifest.json is refused: it is not a safetensors file; give a file" in error


def test_load_takes_an_adapter(bundle: Path, session: TextSession) -> None:
    (actual,) = drafters(session, 0)
    assert load(bundle, adapter=actual).adapters == {"drafter": actual}
    assert refusal(lambda: load(bundle, adapter=adapter())).fault == "foreign_vocabulary"
