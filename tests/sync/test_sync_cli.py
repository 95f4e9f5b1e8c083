"""`omnidraft sync` on a real bundle: from two devices to a release that is compared on recorded text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

pytest.importorskip("fsspec", reason="syncing needs fsspec")
pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft import load
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.signing import make_keys
from support.adapters import adapter_of
from support.command_line import Run, refused
from support.places import STARTERS
from support.recordings import record

PROMPTS = [
    "Once upon a time", "How many legs do 3 cats have?", "def add(a, b):", "The weather today is",
    "List three colours.", "Why is the sky blue?", "Tom has 4 apples and buys 5.", "Write a poem about rain.",
    "What is 3 and 4?", "Good morning, everybody,",
]  # fmt: skip


@pytest.fixture(scope="module")
def traces(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a device recorded: ten short answers."""
    return record(bundle, tmp_path_factory.mktemp("recorded") / "t", PROMPTS, 24)


@pytest.fixture
def files(bundle: Path, tmp_path: Path) -> dict[str, Path]:
    """Adapters that change nearly nothing, and one that makes drafts bad; keys; a cache."""
    opened, paths = open_bundle(bundle), {}
    for name, seed, size in (("good", 1, 1e-4), ("fair", 2, 1e-4), ("poison", 3, 0.3)):
        paths[name] = tmp_path / f"{name}.safetensors"
        write_adapter(paths[name], adapter_of(opened, "drafter", seed, size=size))
    paths["private"], paths["public"], _ = make_keys(tmp_path / "key")
    session = load(bundle)
    session.generate("Once upon a time", max_new_tokens=16).finish()
    session.save_cache(tmp_path / "mine.odc")
    return paths | {"cache": tmp_path / "mine.odc"}


def test_the_whole_story(
    run: Run, bundle: Path, traces: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    store, into = tmp_path / "store", tmp_path / "dir"
    push = ("sync", "push", bundle, store)
    # Nothing is sent without --yes, and the list of files is printed.
    code, out, err = run(*push, "--adapter", files["good"], "--accepted-tokens", 300, "--device", "phone")
    assert (code, out) == (1, "") and "nothing was sent; add --yes" in err and not store.exists()
    options = ("--adapter", files["good"], "--cache", files["cache"], "--accepted-tokens", 300)
    code, out, err = run(*push, *options, "--device", "phone", "--yes")
    assert code == 0 and "2 files sent" in out and "n-grams" not in out
    assert "what it reveals" in err and "trace" not in err
    printed = json.loads(run(*push, *options, "--device", "phone", "--yes", "--json")[1])
    assert (printed["new_files"], printed["accepted_tokens"]) == (0, 300)
    code, out, err = run(*push, "--adapter", files["fair"], "--traces", traces, "--yes")
    assert code == 0 and "give --device" in out and "EVERY" in err
    name = out.split("--device ")[1].split()[0].rstrip(",")

    listed = json.loads(run("sync", "list", bundle, store, "--json")[1])
    assert {d["device"] for d in listed["devices"]} == {"phone", name} and listed["latest"] is None
    assert "release none" in run("sync", "list", bundle, store)[1]
    fetched = json.loads(run("sync", "fetch", bundle, store, "--into", tmp_path / "got", "--json")[1])
    assert fetched["devices"] == {name: 1}
    assert run("trace", "inspect", tmp_path / "got" / name, "--bundle", bundle)[0] == 0

    publish = ("sync", "publish", bundle, store, "--key", files["private"])
    release = json.loads(run(*publish, "--rank", 8, "--json")[1])
    assert (release["number"], release["devices"]) == (1, 2) and release["lost"] < 1e-5

    pull = ("sync", "pull", bundle, store, "--into", into, "--public-key", files["public"])
    code, out, err = run(*pull, "--cache", tmp_path / "new.odc")
    assert code == 0 and "release 1 is in use, untried" in out
    assert len(read_table(tmp_path / "new.odc")) == len(read_table(files["cache"]))
    code, out, _ = run(*pull)
    assert code == 0 and "release 1 is in use already; the store has no newer one" in out
    # A spoiled adapter is published by mistake: each device notices it on its own recorded text.
    assert json.loads(run(*publish, "--adapter", files["poison"], "--json")[1])["number"] == 2
    code, out, _ = run(*pull, "--traces", traces, "--json")
    printed = json.loads(out)
    assert (code, printed["outcome"], printed["why_not_taken"]) == (4, "kept", "not better")
    assert printed["shadow"]["high"] < 0.0
    assert printed["shadow"]["generations"] == len(PROMPTS) and printed["signed_by"]
    assert read_adapter(printed["adapter"]).rank == 8
    code, out, _ = run(*pull, "--traces", traces)
    assert code == 4 and "it was tried before or given up, and the store has no newer one" in out
    code, out, _ = run(*pull, "--traces", traces, "--again")
    figures = printed["shadow"]
    assert code == 4 and "release 2 was not taken, worse: on 10 recorded generations" in out
    assert f"{figures['offered']:.4f} of its" in out and f"{figures['current']:.4f} of those of" in out
    # A device with the spoiled adapter takes the better one.
    run(*publish, "--adapter", files["good"])
    other = (*pull[:4], "--into", tmp_path / "other", *pull[6:], "--traces", traces)
    code, out, err = run(*other, "--adapter", files["poison"])
    assert code == 0 and "release 3 is in use, better" in out
    text = ("generate", bundle, PROMPTS[0], "-n", 12, "--json", "--adapter")
    answers = [json.loads(run(*text, a)[1])["token_ids"] for a in (tmp_path / "other", files["good"])]
    assert answers[0] == answers[1]
    status = json.loads(run("sync", "status", tmp_path / "other", "--json")[1])
    assert (status["current"]["release"], status["previous"]["release"], status["seen"]) == (3, None, 3)
    assert "this device's own adapter" in run("sync", "rollback", tmp_path / "other")[1]
    assert "release 3" in run("sync", "status", tmp_path / "other")[1]
    assert "3 files of phone deleted" in run("sync", "withdraw", bundle, store, "--device", "phone")[1]


def test_what_adapt_left_is_sent_with_its_weight(run: Run, bundle: Path, tmp_path: Path) -> None:
    store, place = tmp_path / "store", tmp_path / "learned"
    push = ("sync", "push", bundle, store, "--yes", "--adapted", place)
    small = ("-n", 8, "-k", 4, "--lora-rank", 4, "--interval", 2, "--passes", 1)
    adapt = ("adapt", bundle, "-o", place, "--drafter", STARTERS / "drafter", *small)
    refused(run(*push), "has nothing that was learned of the target of starter", "run `omnidraft adapt`")
    assert run(*adapt, "--count", 2)[0] == 0
    code, _, err = run(*push)
    assert code == 0 and "has no adapter of this target, only n-grams" in err
    assert run(*adapt, "--count", 24)[0] == 0  # enough that one adapter was found good
    printed = json.loads(run(*push, "--device", "phone", "--json")[1])
    assert [each["kind"] for each in printed["sent"]] == ["adapter", "cache"]
    curve = place / "curve.jsonl"
    lines = [json.loads(line) for line in curve.read_text().splitlines()]
    curve.write_text(curve.read_text() * 2)  # a run repeats the lines after the checkpoint of a killed run
    counted = sum(max(0, line["tokens"] - line["passes"]) for line in lines)
    assert printed["accepted_tokens"] == counted > 0
    assert json.loads(run(*push, "--device", "phone", "--json")[1])["accepted_tokens"] == counted
    for option in (("--adapter", "x"), ("--cache", "x"), ("--accepted-tokens", 1)):
        refused(run(*push, *option), "brings its own adapter, cache and accepted tokens")


def test_too_few_recordings_are_told_with_how_many_are_needed(
    run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    store, few = tmp_path / "store", tmp_path / "few"
    session = load(bundle, trace=few)
    session.generate(PROMPTS[0], max_new_tokens=12, num_draft_tokens=3).finish()
    assert session.trace is not None
    session.trace.close()
    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--adapter", files["good"])
    assert run(*publish)[0] == 0
    pull = ("sync", "pull", bundle, store, "--into", tmp_path / "dir", "--public-key", files["public"])
    code, out, _ = run(*pull, "--traces", few)
    assert code == 3 and f"{few} has 1 recorded generation and 8 are needed to try it; record more" in out
    code, out, _ = run(*pull, "--traces", few, "--json")
    printed = json.loads(out)
    assert (code, printed["why_not_taken"], printed["adapter"]) == (3, "too few recordings", None)
    assert (printed["recordings"], printed["recordings_needed"]) == (1, 8)
    code, out, _ = run("sync", "pull", "--help")
    assert code == 0 and "needs 8 recorded generations" in " ".join(out.split())
    assert run(*pull)[0] == 0


def test_a_first_pull_speaks_of_no_adapter_in_use(
    run: Run, bundle: Path, traces: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    store, into = tmp_path / "store", tmp_path / "dir"
    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--adapter")
    pull = ("sync", "pull", bundle, store, "--into", into, "--traces", traces)
    assert run(*publish, files["poison"])[0] == 0
    code, out, _ = run(*pull)
    assert code == 4 and "of those of the drafter without an adapter, a difference of" in out
    assert f"{into}: the drafter without an adapter is in use\n" in run("sync", "status", into)[1]
    code, out, _ = run(*pull, "--again", "--adapter", files["fair"])
    assert code == 4 and "of those of the adapter that was in use, a difference of" in out
    assert "is in use; before it, the drafter without an adapter\n" in run("sync", "status", into)[1]
    push = ("sync", "push", bundle, tmp_path / "grams", "--cache", files["cache"], "--yes")
    assert run(*push)[0] == 0
    assert run("sync", "publish", bundle, tmp_path / "grams", "--key", files["private"])[0] == 0
    code, out, _ = run("sync", "pull", bundle, tmp_path / "grams", "--into", tmp_path / "other")
    assert code == 0 and "release 1 has n-grams only; the drafter stays as it is" in out


def test_an_interrupt_says_what_is_kept(
    run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnidraft.sync.store import Store

    store, into = tmp_path / "store", tmp_path / "dir"
    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--adapter", files["good"])
    assert run(*publish)[0] == 0

    def interrupted(*_: object, **__: object) -> bytes:
        raise KeyboardInterrupt

    for operation in ("read", "write"):
        monkeypatch.setattr(Store, operation, interrupted)
    for command, words in (
        (("sync", "pull", bundle, store, "--into", into), f"`omnidraft sync status {into}`); the same"),
        (("sync", "push", bundle, store, "--cache", files["cache"], "--yes"), "is visible once it is whole"),
        (publish, "the newest release is the old one or the new one, whole"),
        (("sync", "list", bundle, store), "nothing was changed"),
    ):
        code, out, err = run(*command)
        said_last = err.splitlines()[-1]
        assert (
            (code, out) == (130, "") and said_last.startswith("omnidraft: stopped; ") and words in said_last
        )


def test_an_interrupt_at_the_question_sends_nothing(
    run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> bool:
        raise typer.Abort  # what it makes of Ctrl-C

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", interrupted)
    code, out, err = run("sync", "push", bundle, tmp_path / "store", "--cache", files["cache"])
    assert (code, out) == (130, "") and err.splitlines()[-1] == "omnidraft: stopped; nothing was sent"
    assert not (tmp_path / "store").exists()


def test_what_is_told_of_a_store_has_no_long_digests(
    run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--adapter", files["good"])
    assert run(*publish)[0] == 0
    for kept in store.glob("channels/*/files/*"):
        kept.write_bytes(kept.read_bytes()[:-1])
    refused(run("sync", "pull", bundle, store, "-o", bundle), "is a bundle", "a directory of its own")
    absent = run("sync", "pull", bundle, tmp_path / "absent", "--out", tmp_path / "dir")
    refused(absent, f"there is no store {tmp_path / 'absent'}; check its address")
    result = run("sync", "pull", bundle, store, "--into", tmp_path / "dir")
    refused(result, "channels/", "try again, or ask who put it there")
    assert not re.search("[0-9a-f]{64}", result[2]) and re.search(
        "files/[0-9a-f]{12}[.]safetensors", result[2]
    )


def test_refusals_are_a_sentence(run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path) -> None:
    store, into = tmp_path / "store", tmp_path / "dir"
    push, pull = ("sync", "push", bundle, store, "--yes"), ("sync", "pull", bundle, store, "--into", into)
    publish = ("sync", "publish", bundle, store, "--key", files["private"])
    refused(run(*push), "nothing is to be sent")
    refused(run(*push, "--adapter", files["good"]), "--accepted-tokens")
    refused(run(*push, "--cache", files["cache"], "--device", "../x"), "device name", "../x")
    refused(run(*push, "--cache", files["good"]), "not an n-gram cache")
    refused(run(*push, "--adapter", files["cache"], "--accepted-tokens", 1), "not a safetensors file")
    refused(run(*push, "--traces", tmp_path), "holds no trace")
    refused(run(*pull), f"there is no store {store}")
    store.mkdir()
    refused(run(*pull), "has no release for the pair of models of starter", "ask its publisher")
    refused(run(*publish), "neither adapters nor caches")
    refused(run(*publish, "--days", 0), "--days")
    refused(run(*publish, "--device", "nobody"), "nobody sent nothing")
    refused(
        run(*publish[:-1], files["public"], "--adapter", files["good"]),
        "is not a private key in PEM form; make",
    )
    refused(run("sync", "status", into), "holds nothing that was pulled")
    refused(run("sync", "rollback", into), "nothing before it")
    refused(run("generate", bundle, "x", "--adapter", tmp_path), "holds nothing that was pulled")
    refused(run("sync", "push", bundle, "nosuch://x", "--yes", "--cache", files["cache"]), "is not a store")
    (tmp_path / "file").write_bytes(b"mine")
    assert run(*publish, "--adapter", files["good"])[0] == 0
    refused(run(*pull[:-1], tmp_path / "file"), "cannot be written")
    for command in (("pull", "--into", into), ("push", "--yes", "--cache", files["cache"])):
        result = run("sync", command[0], bundle, tmp_path / "file", *command[1:])
        refused(result, "file is a file and not a store; give a folder")
    other = make_keys(tmp_path / "other")[1]
    refused(run(*pull, "--public-key", other), "was signed with key")
    assert "not checked" in run(*pull)[1]
