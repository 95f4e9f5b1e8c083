"""Signed bundles: keys, the signature file, and every refusal in one sentence."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from fuzz.fuzz_manifest import make_bundle
from omnidraft.errors import BundleError, SettingError, SignatureError
from omnidraft.runtime.bundle import hashes, signature
from omnidraft.runtime.bundle.bundle import open_bundle
from omnidraft.runtime.bundle.hashes import Verify, check_unchanged, file_sha256
from omnidraft.runtime.bundle.manifest_file import MANIFEST, sealed
from omnidraft.runtime.bundle.signature import SIGNATURE
from omnidraft.runtime.device import check_record
from support.command_line import Run, config
from support.manifests import rewrite

pytest.importorskip("cryptography", reason="signatures need the package cryptography")
from omnidraft.signing import make_keys, sign_bundle

Keys = tuple[Path, Path, str]


def no_passphrase() -> bytes:
    raise AssertionError("this key is not encrypted")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return make_keys(tmp_path / "mine")


@pytest.fixture
def signed(tmp_path: Path, keys: Keys) -> Path:
    """A bundle that opens (its graphs are a few bytes, nothing loads them), signed."""
    place = tmp_path / "bundle"
    place.mkdir()
    manifest = make_bundle(place)
    (place / MANIFEST).write_bytes(sealed(manifest))
    sign_bundle(place, keys[0], no_passphrase)
    return place


def test_a_signed_bundle_opens_with_its_key_and_without(signed: Path, keys: Keys) -> None:
    assert open_bundle(signed, keys[1]).signed_by == keys[2]
    assert open_bundle(signed).signed_by is None
    assert len((signed / SIGNATURE).read_bytes()) == 200


def test_the_raw_key_is_as_good_as_its_file(signed: Path, keys: Keys) -> None:
    raw = signature.read_public_key(keys[1])
    assert len(raw) == 32
    assert open_bundle(signed, raw).signed_by == keys[2]
    with pytest.raises(SettingError, match="has 32 bytes, not 31"):
        open_bundle(signed, raw[:31])


def test_a_changed_manifest_is_refused_though_it_was_sealed_again(signed: Path, keys: Keys) -> None:
    """Who can rewrite the bundle can rewrite hashes and seal, and not the signature."""
    rewrite(signed, lambda manifest: manifest["target"].update(eos_ids=[2]))
    open_bundle(signed)
    with pytest.raises(SignatureError, match="changed after signing; copy the bundle") as refused:
        open_bundle(signed, keys[1])
    assert refused.value.fault == "wrong_signature"


def test_wrong_keys_are_refused(signed: Path, keys: Keys, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    with pytest.raises(SettingError, match=r"nowhere\.pem cannot be read"):
        open_bundle(signed, tmp_path / "nowhere.pem")
    with pytest.raises(SettingError, match="is not a public key in PEM form"):
        open_bundle(signed, keys[0])  # a private key is not a public key
    with pytest.raises(SettingError, match="is not a private key in PEM form"):
        sign_bundle(signed, keys[1], no_passphrase)
    with pytest.raises(SettingError, match="cannot be read"):
        sign_bundle(signed, tmp_path / "nowhere.pem", no_passphrase)
    other = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (tmp_path / "ec.pem").write_bytes(
        other.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(SettingError, match="is not an Ed25519 key; `omnidraft keygen"):
        open_bundle(signed, tmp_path / "ec.pem")
    secret = other.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "ec.private.pem").write_bytes(secret)
    with pytest.raises(SettingError, match="is not an Ed25519 key"):
        sign_bundle(signed, tmp_path / "ec.private.pem", no_passphrase)


def test_a_broken_bundle_is_not_signed(signed: Path, keys: Keys) -> None:
    (signed / SIGNATURE).unlink()
    (signed / "drafter/tokenizer.json").write_text("other")
    with pytest.raises(BundleError, match="bytes instead of"):
        sign_bundle(signed, keys[0], no_passphrase)
    assert not (signed / SIGNATURE).exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions of a POSIX system")
def test_a_private_key_is_its_owners_alone(keys: Keys) -> None:
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600


@pytest.mark.parametrize("there", ["private", "public"])
def test_keys_are_never_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / f"k.{there}.pem").write_text("precious")
    with pytest.raises(SettingError, match="never overwritten; choose another name"):
        make_keys(tmp_path / "k")
    assert [p.name for p in tmp_path.iterdir()] == [f"k.{there}.pem"]
    assert (tmp_path / f"k.{there}.pem").read_text() == "precious"


def test_keys_need_a_place(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot write"):
        make_keys(tmp_path / "none/k")
    with pytest.raises(SettingError, match="names no file"):
        make_keys(Path("."))


def test_an_encrypted_key_needs_its_passphrase(signed: Path, tmp_path: Path) -> None:
    private, public, name = make_keys(tmp_path / "locked", b"open sesame")
    assert b"ENCRYPTED" in private.read_bytes()
    with pytest.raises(SettingError, match="does not open with this passphrase"):
        sign_bundle(signed, private, lambda: b"open barley")
    assert sign_bundle(signed, private, lambda: b"open sesame") == name
    assert open_bundle(signed, public).signed_by == name


def test_the_command_line(run: Run, signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / "line"
    monkeypatch.setenv("OMNIDRAFT_KEY_PASSPHRASE", "a secret")
    code, out, _ = run("keygen", "-o", name, "--encrypt")
    private, public, key = (line.split(":")[0].removeprefix("key ") for line in out.splitlines())
    assert code == 0
    code, out, err = run("sign", signed, "--key", private)
    assert (code, out, err) == (0, f"{signed} is signed with key {key}\n", "")
    (signed / "notes.txt").write_text("mine")
    code, out, _ = run("verify", signed, "--key", public)
    assert code == 0
    count = len(open_bundle(signed).manifest["files"])
    assert f"all {count} hashes match" in out and "not covered, and read by nothing: notes.txt" in out
    monkeypatch.delenv("OMNIDRAFT_KEY_PASSPHRASE")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, out, err = run("sign", signed, "--key", private)
    assert code == 1 and "no terminal to ask for it; set OMNIDRAFT_KEY_PASSPHRASE" in err


@pytest.mark.parametrize("command", [["generate", "x"], ["chat"], ["inspect"], ["bench"], ["verify"]])
def test_every_command_refuses_an_unsigned_bundle(
    run: Run,
    signed: Path,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    """Given by environment, or where a command can be told; the graphs are none, so nothing was loaded."""
    (signed / SIGNATURE).unlink()
    told = {"verify": ("--key", keys[1]), "inspect": ()}.get(command[0], config(public_key=keys[1]))
    for given in (told, ()):
        if not given:
            monkeypatch.setenv("OMNIDRAFT_PUBLIC_KEY", str(keys[1]))
        code, out, err = run(command[0], signed, *command[1:], *given)
        assert (code, out) == (1, "")
        assert err.startswith("omnidraft: this bundle is unsigned") and err.count("\n") == 1


def test_a_loose_private_key_is_told(run: Run, signed: Path, keys: Keys) -> None:
    keys[0].chmod(0o644)
    _, _, err = run("sign", signed, "--key", keys[0])
    assert f"chmod 600 {keys[0]}" in err


def test_without_cryptography_one_sentence_says_so(
    signed: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = signature.read_public_key(keys[1])
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingError, match="needs the package cryptography; run `pip install"):
        open_bundle(signed, keys[1])
    with pytest.raises(SettingError, match="checking a signature needs the package cryptography"):
        open_bundle(signed, raw)
    assert open_bundle(signed).signed_by is None
    monkeypatch.setattr("omnidraft.signing.find_spec", lambda name: None)
    with pytest.raises(SettingError, match="keys and signatures need the package cryptography"):
        make_keys(signed / "k")


def test_weights_beside_a_graph_need_a_hash(signed: Path) -> None:
    """onnxruntime would read them without being told."""
    (signed / "target/cpu/model.onnx.data").write_bytes(b"weights of someone else")
    with pytest.raises(BundleError, match=r"no hash of .target/cpu/model\.onnx\.data"):
        open_bundle(signed)


def test_a_file_that_changes_after_hashing_is_noticed(signed: Path) -> None:
    bundle = open_bundle(signed)
    check_unchanged(bundle.places, bundle.stamps)
    file = signed / "target/cpu/model.onnx"
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)  # even with the same bytes it is another file
    with pytest.raises(BundleError, match=r"model\.onnx was changed while it was loaded"):
        check_unchanged(bundle.places, bundle.stamps)
    file.unlink()
    with pytest.raises(BundleError, match="was changed while it was loaded"):
        check_unchanged(bundle.places, bundle.stamps)


def test_with_a_key_every_file_is_hashed_each_time(
    signed: Path, keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the caller asks for stamps; without a key the stamps of the last full check suffice."""
    hashed: list[Path] = []

    def counted(file: Path) -> str:
        hashed.append(file)
        return file_sha256(file)

    monkeypatch.setenv("OMNIDRAFT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(check_record, "SETTLED", -(1 << 62))  # files that were just made are recorded, too
    monkeypatch.setattr(hashes, "file_sha256", counted)
    all_files = len(open_bundle(signed).stamps)
    assert len(hashed) == all_files > 1
    cases: list[tuple[Path | None, Verify, int]] = [
        (None, "auto", 0), (keys[1], "auto", all_files), (keys[1], "stamp", 0), (None, "full", all_files),
    ]  # fmt: skip
    for key, verify, count in cases:
        hashed.clear()
        open_bundle(signed, key, verify=verify)
        assert len(hashed) == count, (key, verify)
