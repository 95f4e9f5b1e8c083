"""A bundle on disk (spec/03-bundle.md): open it, verify every file, and read its manifest.

Every file is hashed before use, and a missing hash is an error: integrity fails closed.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnidraft.errors import BundleError, SettingError
from omnidraft.runtime.bundle import bundle_limits as limits
from omnidraft.runtime.bundle.hashes import Record, Verify, check_files, verify_files
from omnidraft.runtime.bundle.hashes import file_sha256 as file_sha256
from omnidraft.runtime.bundle.manifest_file import MANIFEST as MANIFEST
from omnidraft.runtime.bundle.manifest_file import parse_manifest, read_manifest
from omnidraft.runtime.bundle.model_entry import NO_DRAFTER, ModelEntry, read_entry
from omnidraft.runtime.bundle.replaceable import unlisted
from omnidraft.runtime.bundle.signature import PublicKey, key_id, read_public_key, read_signature
from omnidraft.runtime.bundle.signature import verify as verify_signature
from omnidraft.runtime.chat.prompt_template import PromptTemplate, read_prompt
from omnidraft.runtime.chat.tool_form import MAX_PROMPT
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.device.check_record import Stamp
from omnidraft.runtime.device.device_costs import read_costs
from omnidraft.runtime.device.machine import Machine, read_machine
from omnidraft.runtime.disk.json_fields import mapping, text
from omnidraft.runtime.parts.file_places import FilePlaces, find_places


@dataclass(frozen=True)
class Bundle:
    """A verified bundle.

    Attributes:
        target, drafter: the two models; `NO_DRAFTER` where the bundle has none, which can only copy.
        measured_on: the machine that they were measured on; None where the manifest names none.
        signed_by: id of the public key that the signature was checked with; None if no key was given.
        stamps: size and times of each file before it was hashed.
        found: where the files are; None where all of them are in the directory.
    """

    path: Path
    target: ModelEntry
    drafter: ModelEntry
    prompt: PromptTemplate
    costs: Costs
    vocab_map: str
    manifest: dict[str, Any]
    signed_by: str | None = None
    stamps: dict[str, Stamp] = field(default_factory=dict)
    measured_on: Machine | None = None
    found: FilePlaces | None = None

    @property
    def places(self) -> FilePlaces:
        return self.found or FilePlaces(self.path)

    @property
    def models(self) -> tuple[ModelEntry, ...]:
        """The target, and the drafter if there is one."""
        return (self.target,) if self.drafter.is_absent else (self.target, self.drafter)

    def file(self, name: str) -> Path:
        """Path of a file of the bundle.

        Raises:
            BundleError: the file was left out when the bundle was packed for a device.
        """
        return self.places.file(name)


def open_bundle(path: str | Path, public_key: PublicKey | None = None, verify: Verify = "full") -> Bundle:
    """Read and verify a bundle.

    Args:
        public_key: of the signer; a bundle without a signature by this key is refused. None checks nothing.
        verify: "full" hashes every file; "stamp" only where this device has no record that all files have the
            stamps of its last full check (spec/08-phones.md, "Stamps"); "auto" is "full" with a public key,
            else "stamp".

    Raises:
        BundleError: no bundle at the path, another format version, a missing field, or a file that is absent,
            cut short or changed.
        SignatureError: a BundleError; the bundle is not signed with the key.
        SettingError: the key is not a public key, or a package that checks signatures is not installed.
    """
    path = Path(path)
    key = None if public_key is None else read_public_key(public_key)
    data = read_manifest(path)
    if key is not None:  # before any field of the manifest is used
        verify_signature(data, read_signature(path), key)
    bundle, files = described_bundle(path, data)
    if verify == "auto":
        verify = "stamp" if key is None else "full"
    stamps = verify_files(bundle.places, files, bundle.manifest["seal"], verify)
    return replace(bundle, stamps=stamps, signed_by=None if key is None else key_id(key))


def described_bundle(path: Path, data: bytes, packed: bool = False) -> tuple[Bundle, dict[str, Record]]:
    """The bundle that the bytes of a manifest describe, and its files, whose hashes are not checked here.

    Raises:
        BundleError: of the manifest, or of pack.json in the directory.
    """
    manifest = parse_manifest(path, data)
    bundle = _bundle(path, manifest)
    files = check_files(path / MANIFEST, manifest.get("files"))
    bundle = bundle if packed else replace(bundle, found=find_places(path, data, files))
    for name in _used(bundle):
        if name not in files:
            raise BundleError(
                f"{path / MANIFEST} has no hash of {name!r:.200}",
                "run `omnidraft export` again",
                fault="no_hash",
            )
    return bundle, files


def _bundle(path: Path, manifest: dict[str, Any]) -> Bundle:
    """The fields of a manifest as values; no file is looked at."""
    try:
        text(manifest["omnidraft"], limits.MAX_VERSION)
        return Bundle(
            path=path,
            target=read_entry(mapping(manifest["target"])),
            drafter=NO_DRAFTER if manifest["drafter"] is None else read_entry(mapping(manifest["drafter"])),
            prompt=_prompt(mapping(manifest["prompt"])),
            costs=read_costs(mapping(manifest["costs"])),
            vocab_map=text(manifest["vocab_map"], limits.MAX_PATH),
            manifest=manifest,
            measured_on=_machine(mapping(manifest["costs"])),
        )
    except KeyError as error:
        raise BundleError(
            f"{path / MANIFEST} has no {error}", "run `omnidraft export` again", fault="field"
        ) from None
    except (TypeError, ValueError) as error:
        raise BundleError(
            f"{path / MANIFEST} has a field of the wrong kind ({error})",
            "run `omnidraft export` again",
            fault="field",
        ) from None


def need_drafter(bundle: Bundle) -> None:
    """Refuse to train the drafter of a bundle that has none.

    Raises:
        SettingError: it has none.
    """
    if bundle.drafter.is_absent:
        raise SettingError(
            f"{bundle.path.name} has no drafter, so there is nothing to train",
            "export it without --drafter none",
        )


def unlisted_files(bundle: Bundle) -> list[str]:
    """Files in the directory of the bundle that the manifest does not list; nothing reads them."""
    return unlisted(bundle.path, bundle.manifest["files"])


def _used(bundle: Bundle) -> list[str]:
    template = bundle.manifest["prompt"]["template"]
    names = [bundle.vocab_map, *([] if template is None else [template])]
    for entry in bundle.models:
        names += [entry.graph, entry.tokenizer]
        names += [] if entry.compiled_tokenizer is None else [entry.compiled_tokenizer]
        names += [name for place in entry.places.values() for name in place.files]
        names += [] if entry.train is None else [entry.train.graph]
        # onnxruntime reads this file by its name alone; a graph that is not listed is refused anyway.
        if entry.graph in bundle.manifest["files"] and bundle.places.place(f"{entry.graph}.data").exists():
            names.append(f"{entry.graph}.data")
    return names


def _prompt(data: dict[str, Any]) -> PromptTemplate:
    prompt = read_prompt(data)
    if data["template"] is not None:
        text(data["template"], limits.MAX_PATH)
    for name, value in mapping(data["names"], limits.MAX_NAMES).items():
        text(name, limits.MAX_NAME)
        text(value, MAX_PROMPT)
    return prompt


def _machine(costs: dict[str, Any]) -> Machine | None:
    machine = costs.get("machine")
    return None if machine is None else read_machine(mapping(machine))
