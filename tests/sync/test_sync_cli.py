"""`omnidraft sync` on a real bundle: from two devices to a release that is compared on recorded text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

pytest.importorskip("cryptography", reason="signatures need the package cryptography")

from omnidraft import load
from omnidraft.commands.sync.sync_options import open_pair
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.models.adapter_file import read_adapter, write_adapter
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.signing import make_keys, read_private_key
from omnidraft.sync.channel import release_name
from omnidraft.sync.record import Contents, write_signed
from omnidraft.sync.store import Store, open_store
from support.adapters import adapter_of
from support.command_line import Run, config, refused
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
def files(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Adapters that change nearly nothing, and one that makes drafts bad; keys; a cache."""
    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "state"))
    opened, paths = open_bundle(bundle), {}
    small = [(f"small {seed}", seed, 1e-2) for seed in range(4, 16)]
    for name, seed, size in (("good", 1, 1e-4), ("poison", 3, 0.3), *small):
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
    store, into, devices = tmp_path / "store", tmp_path / "dir", tmp_path / "devices"
    push = ("sync", "push", bundle, store, "--cache", files["cache"], "--traces", traces)
    # Nothing is sent without --yes, and the list of files is printed.
    code, out, err = run(*push)
    assert (code, out) == (1, "") and "nothing was sent; add --yes" in err and not store.exists()
    assert "what it reveals" in err and "EVERY" in err and "identity" in err
    pushed = json.loads(run(*push, "--yes", "--json")[1])
    code, out, _ = run(*push, "--yes")
    assert code == 0 and "2 files sent" in out and f"this device is {pushed['key']}" in out
    assert len(list(store.glob("*/*.push"))) == 1, "a push replaces the one before"

    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--devices", devices)
    devices.write_text(f"{'0' * 64} nobody\n")
    code, out, err = run(*publish)
    assert code == 1 and f"the push of {pushed['key']} is left out: its key is not among" in err
    assert "neither adapters nor caches of accepted devices" in err
    devices.write_text(f"{pushed['key']} kitchen\n")
    release = json.loads(run(*publish, "--json")[1])
    assert (release["adapter_bytes"], release["left_out"]) == (None, {}) and release["cache_bytes"] > 0

    pull = ("sync", "pull", bundle, store, "-o", into, "--public-key", files["public"])
    code, out, _ = run(*pull, "--cache", tmp_path / "new.odc")
    assert code == 0 and "has n-grams only; the drafter stays as it is" in out
    assert len(read_table(tmp_path / "new.odc")) == len(read_table(files["cache"]))
    refused(run(*publish, "--adapter", files["good"]), "an adapter is published after a trial")
    trained = (*publish, "--traces", traces, "--adapter")
    refused(run(*trained, files["poison"]), "the adapter is worse than the drafter without an adapter")
    # Small changes at random: the first that is better than no change is published, and the others are not.
    for chosen in (name for name in files if name.startswith("small")):
        code, out, err = run(*trained, files[chosen], "--json")
        if code == 0:
            break
        assert "the adapter is worse than the drafter without an adapter" in err
    number = json.loads(out)["number"]
    printed = json.loads(run(*pull, "--traces", traces, "--json")[1])
    assert printed["outcome"] in ("switched", "not better") and printed["shadow"]["generations"] == len(
        PROMPTS
    )
    other = ("sync", "pull", bundle, store, "-o", tmp_path / "other", "--public-key", files["public"])
    code, out, _ = run(*other, "--traces", traces, "--adapter", files["poison"])
    assert code == 0 and f"release {number} is in use, better" in out
    text = ("generate", bundle, PROMPTS[0], "-n", 12, "--json", "--adapter")
    answers = [json.loads(run(*text, a)[1])["token_ids"] for a in (tmp_path / "other", files[chosen])]
    assert answers[0] == answers[1]
    status = json.loads(run("sync", "status", tmp_path / "other", "--json")[1])
    assert (status["current"]["release"], status["previous"]["release"]) == (number, None)
    assert "this device's own adapter" in run("sync", "rollback", tmp_path / "other")[1]
    code, out, _ = run(*other, "--traces", traces)
    assert code == 0 and "it was tried before or given up" in out


def test_what_learn_left_is_sent_with_its_weight(
    run: Run, learnable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "state"))
    store, place = tmp_path / "store", tmp_path / "learned"
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(f"How many legs do {n} cats have?" for n in range(2, 26)), encoding="utf-8")
    push = ("sync", "push", learnable, store, "--yes", "--adapted", place)
    small = config(max_new_tokens=8, num_draft_tokens=4, interval=2, passes=1)
    refused(run(*push), "has nothing that was learned of the target of", "run `omnidraft learn --prompts`")
    learn = ("learn", learnable, "--prompts", prompts, "-o", place, *small)
    assert run(*learn)[0] == 0  # enough that one adapter was found good
    printed = json.loads(run(*push, "--json")[1])
    assert printed["adapter_bytes"] and printed["cache_bytes"] and printed["traces"] == 0
    curve = place / "curve.jsonl"
    lines = [json.loads(line) for line in curve.read_text().splitlines()]
    curve.write_text(curve.read_text() * 2)  # a run repeats the lines after the checkpoint of a killed run
    counted = sum(max(0, line["tokens"] - line["passes"]) for line in lines)
    assert printed["accepted_tokens"] == counted > 0
    assert json.loads(run(*push, "--json")[1])["accepted_tokens"] == counted
    refused(run(*push, "--cache", "x"), "brings its own n-grams")


def test_too_few_recordings_are_told_with_how_many_are_needed(
    run: Run, bundle: Path, traces: Path, files: dict[str, Path], tmp_path: Path
) -> None:
    """A release is written as a publisher does, since a trial on so few would not publish it."""
    store, few = tmp_path / "store", record(bundle, tmp_path / "few", PROMPTS[:1], 12)
    publish = ("sync", "publish", bundle, store, "--key", files["private"], "--adapter", files["good"])
    refused(run(*publish, "--traces", few), "1 recorded generation and 8 are needed to try the adapter")
    pair = open_pair(bundle)
    contents = Contents(files["good"].read_bytes())
    data = write_signed("release", pair.channel, contents, read_private_key(files["private"], bytes))
    open_store(str(store)).write(release_name(pair.channel), data)
    pull = ("sync", "pull", bundle, store, "-o", tmp_path / "dir", "--public-key", files["public"])
    code, out, _ = run(*pull, "--traces", few)
    assert code == 0 and f"{few} has 1 recorded generation and 8 are needed to try it; record more" in out
    printed = json.loads(run(*pull, "--traces", few, "--json")[1])
    assert (printed["why_not_taken"], printed["adapter"]) == ("too few recordings", None)
    assert (printed["recordings"], printed["recordings_needed"]) == (1, 8)
    code, out, _ = run(*pull)
    assert code == 0 and "is in use, untried" in out
    assert read_adapter(json.loads(run(*pull, "--json")[1])["adapter"]).rank == 4


def test_interrupts(
    run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> bytes:
        raise KeyboardInterrupt

    def refused_answer(*_: object, **__: object) -> bool:
        raise typer.Abort  # what typer makes of Ctrl-C

    store, into = tmp_path / "store", tmp_path / "dir"
    push = ("sync", "push", bundle, store, "--cache", files["cache"])
    for operation in ("read", "write", "names"):
        monkeypatch.setattr(Store, operation, interrupted)
    devices = tmp_path / "devices"
    devices.write_text(f"{'0' * 64}\n")
    for command, words in (
        (("sync", "pull", bundle, store, "-o", into, "--public-key", files["public"]), "sync status"),
        ((*push, "--yes"), "the store has the last push or this one"),
        (
            ("sync", "publish", bundle, store, "--key", files["private"], "--devices", devices),
            "the store has the old release or the new one, whole",
        ),
    ):
        code, out, err = run(*command)
        said = err.splitlines()[-1]
        assert (code, out) == (130, "") and said.startswith("omnidraft: stopped; ") and words in said
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", refused_answer)
    code, out, err = run(*push)
    assert (code, out) == (130, "") and err.splitlines()[-1] == "omnidraft: stopped; nothing was sent"
    assert not store.exists()


def test_refusals_are_a_sentence(run: Run, bundle: Path, files: dict[str, Path], tmp_path: Path) -> None:
    store, into = tmp_path / "store", tmp_path / "dir"
    push = ("sync", "push", bundle, store, "--yes")
    pull = ("sync", "pull", bundle, store, "--public-key", files["public"], "-o", into)
    publish = ("sync", "publish", bundle, store, "--key", files["private"])
    refused(run(*push), "nothing is to be sent")
    refused(run(*push, "--cache", files["good"]), "not an n-gram cache")
    refused(run(*push, "--traces", tmp_path), "holds no trace")
    refused(run(*pull), f"there is no store {store}", "check its address")
    store.mkdir()
    refused(run(*pull), f"{store} has no release for the pair of models of starter", "ask its publisher")
    refused(run(*pull[:-1], bundle), "is a bundle", "another directory")
    refused(run(*publish), "neither devices nor an adapter are named")
    wrong = (*publish[:-1], files["public"], "--adapter", files["good"])
    refused(run(*wrong), "is not a private key in PEM form; make")
    refused(run("sync", "status", into), "holds nothing that was pulled")
    refused(run("sync", "rollback", into), "nothing before it")
    refused(run("generate", bundle, "x", "--adapter", tmp_path), "has nothing that was learned of")
    refused(run("sync", "push", bundle, "nosuch://x", "--yes", "--cache", files["cache"]), "is not a store")
    assert run("sync", "pull", bundle, store, "-o", into)[0] == 2, "no release is taken without a key"
