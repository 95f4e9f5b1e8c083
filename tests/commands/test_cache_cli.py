"""`omnidraft cache` and `generate --cache`: output, files and refusals."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from omnidraft.runtime.session.api import load
from omnidraft.runtime.vocab.cache_store import open_cache, read_table, write_table
from support.cache_files import INVALID, build
from support.command_line import Run, refused
from support.tables import GRAM_IDS, table
from support.toy import TARGET

FO, LAKE = TARGET.index("FO"), TARGET.index("LAKE")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.cache"
    path.write_bytes(build())
    return path


def test_inspect(run: Run, file: Path) -> None:
    code, out, _ = run("inspect", file)
    assert code == 0
    assert "4 n-grams in 166 bytes, 41.5 an entry" in out
    assert "drafter dddddddddddd, target eeeeeeeeeeee" in out
    assert f"target {GRAM_IDS[3]} = draft 2 3" in out
    counts = json.loads(run("inspect", file, "--json")[1])
    assert (counts["entries"], counts["bytes"], counts["hits"], counts["accepted"]) == (4, 166, 10, 6)
    assert not {"writer", "replicas"} & counts.keys()
    assert [e["target_id"] for e in counts["ngrams"]] == GRAM_IDS[::-1]
    expected = {"target_id": FO, "draft_ids": [1, 4], "hits": 2, "accepted": 1, "last_round": 1}
    assert expected in counts["ngrams"]


def test_merge(run: Run, file: Path, tmp_path: Path) -> None:
    second, out_path = tmp_path / "second", tmp_path / "both"
    write_table(second, table([FO], [(100, 50)]))
    code, out, _ = run("cache", "merge", file, second, file, "-o", out_path)
    assert code == 0 and out.startswith(f"{out_path}: 4 n-grams, ")
    merged = read_table(out_path)
    assert merged.hits.tolist() == [1, 100, 3, 4]
    assert run("cache", "merge", second, file, "-o", tmp_path / "again")[0] == 0
    assert (tmp_path / "again").read_bytes() == out_path.read_bytes()


def test_wipe(run: Run, file: Path) -> None:
    file.write_bytes(INVALID["a bit of a section"][1])
    code, out, _ = run("wipe", file)
    assert code == 0 and "deleted" in out
    assert not file.exists()
    refused(run("wipe", file), "holds neither n-grams nor recordings")


def test_refusals(run: Run, file: Path, tmp_path: Path) -> None:
    text = tmp_path / "essay.txt"
    text.write_text("It was a dark and stormy night.")
    refused(run("inspect", tmp_path / "none.odc"), "cannot be read")
    refused(run("wipe", text), "so it stays")
    refused(run("cache", "merge", file, text, "-o", tmp_path / "m"), "not an n-gram cache")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(INVALID["another target"][1])
    refused(run("cache", "merge", file, foreign, "-o", tmp_path / "m"), "one pair of tokenizers")
    refused(run("inspect", file, "-b", tmp_path), "is not a bundle")
    assert text.read_text() == "It was a dark and stormy night."
    assert file.read_bytes() == build()
    assert not (tmp_path / "m").exists()


# With a bundle


def test_a_cache_goes_from_one_generation_to_the_next(run: Run, bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "learned"
    options = "How many apples are 3 and 4 apples?", "-n", 32, "-k", 4, "--cache", path, "--json"
    code, first, err = run("generate", bundle, *options)
    assert (code, err) == (0, "")
    learned = read_table(path)
    assert len(learned) == json.loads(first)["cache_size"] > 0
    code, second, err = run("generate", bundle, *options)
    assert (code, err) == (0, "")
    assert json.loads(second)["token_ids"] == json.loads(first)["token_ids"]
    again = read_table(path)
    assert again.targets.tolist() == learned.targets.tolist()
    assert again.hits.tolist() == [2 * h for h in learned.hits.tolist()]
    assert again.tick == json.loads(first)["rounds"] + json.loads(second)["rounds"]
    shown = json.loads(run("inspect", path, "-b", bundle, "--json")[1])["ngrams"]
    assert len(shown) == len(again)
    for entry in shown:
        assert "".join(entry["piece_bytes"]) == entry["bytes"]
        assert bytes.fromhex(entry["bytes"]).decode("utf-8", "backslashreplace") == entry["text"]
    code, out, _ = run("inspect", path, "-b", bundle)
    assert code == 0 and " = '" in out


def test_a_damaged_cache_never_stops_a_generation(run: Run, bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "learned"
    names = "a bit of a section", "version 1", "no sections"
    for number, name in enumerate(names, 1):
        path.write_bytes(INVALID[name][1])
        code, out, err = run(
            "generate", bundle, "What is 2 and 2?", "-n", 12, "-k", 4, "--cache", path, "--json"
        )
        assert code == 0, name
        first, last = err.splitlines()
        assert first.startswith("omnidraft: starting with an empty cache: "), err
        assert first.endswith("; saving keeps it under another name")
        kept = tmp_path / ("learned.refused" if number == 1 else f"learned.refused-{number}")
        assert last == f"omnidraft: {path} was damaged and is kept as {kept}"
        assert kept.read_bytes() == INVALID[name][1]
        assert json.loads(out)["emitted"] > 0
        session = load(bundle)
        assert open_cache(path, session.vocab_map)[1] is None, name


def test_a_wrong_file_is_left_alone(run: Run, bundle: Path, tmp_path: Path) -> None:
    """A script by mistake: refused. A cache of another bundle: not used and not written."""
    path = tmp_path / "mine.py"
    for name, status, sentence in (
        ("another kind", 1, f"omnidraft: {path} is not an n-gram cache, so it is left alone; give another"),
        ("another target", 0, f"omnidraft: starting with an empty cache: {path} is refused: it"),
    ):
        path.write_bytes(INVALID[name][1])
        code, out, err = run("generate", bundle, "What is 2 and 2?", "-n", 4, "--cache", path, "--json")
        assert (code, err.count("\n")) == (status, 1) and err.startswith(sentence), err
        assert bool(out) is (status == 0)
        assert [p.name for p in tmp_path.iterdir()] == ["mine.py"]
        assert path.read_bytes() == INVALID[name][1]


def test_a_place_for_no_cache_is_refused_before_anything_is_loaded(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in (("generate", tmp_path / "no bundle", "x"), ("chat", tmp_path / "no bundle")):
        for place, words in (
            (tmp_path / "no/c", "there is no directory"),
            (tmp_path / "pipe", "it is not a regular file"),
            (tmp_path, "it is a directory"),
            ("", "it is a directory"),
        ):
            refused(run(*command, "--cache", place), "cannot be written", words, "choose another place")


def test_a_cache_that_cannot_be_saved_is_said_after_the_text(
    run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, with and without --json: the answer is printed all the same."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for more in ((), ("--json",)):
        code, out, err = run(
            "generate", bundle, "What is 2 and 2?", "-n", 4, "--cache", tmp_path / "c", *more
        )
        assert code == 1
        assert out and err.startswith("omnidraft: the cache cannot be written to") and err.count("\n") == 1
        assert ".tmp" not in err and "Errno" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_be_read(run: Run, file: Path, tmp_path: Path) -> None:
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read every file")
    refused(run("generate", tmp_path / "no bundle", "x", "--cache", file), "it may not be read and written")


def test_a_merge_replaces_only_caches_of_its_pair(run: Run, file: Path, tmp_path: Path) -> None:
    essay, foreign = tmp_path / "essay.txt", tmp_path / "foreign"
    essay.write_text("mine")
    foreign.write_bytes(INVALID["another target"][1])
    for out in (essay, foreign):
        before = out.read_bytes()
        refused(run("cache", "merge", file, file, "-o", out), f"{out} is not a", "not replaced", "delete it")
        assert out.read_bytes() == before
    assert run("cache", "merge", file, file, "-o", file)[0] == 0 and file.read_bytes() == build()
    assert not list(tmp_path.glob("*.refused*"))
