"""`omnidraft trace` and `generate --trace`: output, files and refusals."""

from __future__ import annotations

import json
from pathlib import Path

from omnidraft import load
from support.command_line import Run, refused
from support.trace_files import build


def test_record_inspect_and_wipe(run: Run, bundle: Path, tmp_path: Path) -> None:
    place, prompt = tmp_path / "t", "Once upon a time"
    options = ("generate", bundle, prompt, "-n", 12, "-k", 3, "--json")
    plain = json.loads(run(*options)[1])
    recorded = json.loads(run(*options, "--trace", place)[1])
    assert recorded["token_ids"] == plain["token_ids"]
    run("generate", bundle, prompt, "-n", 12, "--json", "--trace", place, "--mode", "plain")

    code, out, _ = run("inspect", place, "--bundle", bundle)
    assert code == 0 and "2 records in 1 file" in out and "every prompt and answer in it can be read" in out
    shown = json.loads(run("inspect", place, "--bundle", bundle, "--json")[1])
    assert shown["tokens"] == 2 * len(plain["token_ids"]) and shown["torn_bytes"] == 0
    # Prompt and answer can be read from it, word for word, as docs/ says.
    first, second = shown["recordings"]
    assert prompt in first["text_before"] and first["text"].startswith(recorded["text"])
    assert (first["mode"], second["mode"]) == ("trie", "plain")
    assert first["context"] == second["context"] and first["text"] == second["text"]
    assert [t["token_id"] for r in first["rounds"] for t in r["tokens"]] == recorded["token_ids"]
    assert "text" not in json.loads(run("inspect", place, "--json")[1])["recordings"][0]

    assert run("wipe", place) == (0, f"{place}: 1 file deleted\n", "")
    assert not place.exists()


def test_refusals_are_a_sentence(run: Run, bundle: Path, tmp_path: Path) -> None:
    toy = tmp_path / "trace-0000000001.odt"
    toy.write_bytes(build())
    assert run("inspect", toy)[0] == 0
    refused(run("inspect", toy, "--bundle", bundle), "tokenizer", "use it with the pair of models")
    refused(run("inspect", tmp_path / "none.odt"), "there is no trace")
    refused(run("wipe", tmp_path / "none"), "holds neither n-grams nor recordings")
    refused(run("generate", bundle, "hello", "--trace", tmp_path), "choose another place for this pair")
    (tmp_path / "file").write_bytes(b"mine")
    refused(run("generate", bundle, "hello", "--trace", tmp_path / "file"), "it is not a directory")
    refused(run("wipe", tmp_path / "file"), "so it stays")
    session = load(bundle, trace=tmp_path / "t")
    session.generate("hello", max_new_tokens=2).finish()
    refused(run("wipe", tmp_path / "t"), "is recording")
    refused(run("generate", bundle, "hello", "--trace", tmp_path / "t"), "is recording")
    assert run("inspect", tmp_path / "t")[0] == 0
    assert session.trace is not None
    session.trace.close()
    toy.write_bytes(build()[:120] + b"\1" + build()[121:])
    refused(run("inspect", toy), "damaged")
