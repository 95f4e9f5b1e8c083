"""A bundle on disk: read its manifest, refuse what does not fit, hand out what the runtime needs.

Every file is hashed before it is used and a missing hash is an error: integrity fails closed.
Format: spec/bundle.md.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from omnidraft.errors import BundleError, PromptError
from omnidraft.runtime.draft_length import Costs
from omnidraft.runtime.ort_model import KvShape

FORMAT = "omnidraft.bundle"
VERSION = 1
MANIFEST = "manifest.json"
Layout = Literal["shared", "concat"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True)
class ModelEntry:
    """One model of a bundle: where its graph and tokenizer are, and what they expect.

    Attributes:
        layout: whether keys and values stay in shared buffers, or a pass returns them with the past before.
    """

    source: str
    architecture: str
    graph: str
    tokenizer: str
    kv: KvShape
    vocab_size: int
    quantization: str
    bos_id: int | None
    eos_ids: tuple[int, ...]
    parameters: int
    layout: Layout = "shared"

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV buffers at their full length; two sets take turns in layout `concat`."""
        return self.kv.bytes * (2 if self.layout == "concat" else 1)


@dataclass(frozen=True)
class PromptTemplate:
    """What stands around a user's messages; control tokens are read here and only here.

    Attributes:
        prefix, suffix: before and after the first message.
        between: from the end of an answer to the next message. after: between that message and its answer.
            Both None where the model's chat template cannot be told in four strings.
    """

    prefix: str
    suffix: str
    between: str | None = None
    after: str | None = None

    def parts(self, turns: int) -> list[str]:
        """The strings before and after the message of each turn (see `conversation.Template`).

        Raises:
            PromptError: several turns, and the template was compiled for one.
        """
        if turns > 1 and (self.between is None or self.after is None):
            raise PromptError(
                "this bundle's chat template serves a single turn without jinja2; "
                "install jinja2, or begin a new conversation"
            )
        return [self.prefix, self.suffix, *[self.between or "", self.after or ""] * (turns - 1)]


@dataclass(frozen=True)
class Bundle:
    """A verified bundle."""

    path: Path
    target: ModelEntry
    drafter: ModelEntry
    prompt: PromptTemplate
    costs: Costs
    vocab_map: str
    manifest: dict[str, Any]

    def file(self, name: str) -> Path:
        """Path of a file of the bundle."""
        return self.path / name


def seal(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest without its own seal, in canonical JSON (sorted keys, no spaces)."""
    rest = {key: value for key, value in manifest.items() if key != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def open_bundle(path: str | Path) -> Bundle:
    """Read and verify a bundle.

    Raises:
        BundleError: no bundle there, another format version, a field missing, or a file that is absent,
            cut short or changed.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    _verify_files(path, manifest)
    try:
        bundle = Bundle(
            path=path,
            target=_model_entry(manifest["target"]),
            drafter=_model_entry(manifest["drafter"]),
            prompt=_prompt(manifest["prompt"]),
            costs=_costs(manifest["costs"]),
            vocab_map=_str(manifest["vocab_map"]),
            manifest=manifest,
        )
    except KeyError as error:
        raise BundleError(f"{path / MANIFEST} has no {error}; run `omnidraft export` again") from None
    except (TypeError, ValueError) as error:
        raise BundleError(
            f"{path / MANIFEST} has a field of the wrong kind ({error}); run `omnidraft export` again"
        ) from None
    for entry in (bundle.target, bundle.drafter):
        for name in (entry.graph, entry.tokenizer, bundle.vocab_map):
            if name not in manifest["files"]:
                raise BundleError(f"{path / MANIFEST} has no hash of {name}; run `omnidraft export` again")
    return bundle


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not path.is_dir():
        raise BundleError(
            f"no bundle at {path}; make one with `omnidraft export TARGET --drafter DRAFTER -o {path}`"
        )
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        right_seal = seal(manifest) if isinstance(manifest, dict) else None
    except FileNotFoundError:
        raise BundleError(
            f"{path} holds no {MANIFEST}, so it is no bundle; make one with `omnidraft export`"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{file} is not readable ({error}); run `omnidraft export` again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{file} is no {FORMAT} manifest; make one with `omnidraft export`")
    if manifest.get("version") != VERSION:
        raise BundleError(
            f"{path} is a bundle of version {manifest.get('version')} and this omnidraft reads "
            f"version {VERSION}; run `omnidraft export` again or install the omnidraft that wrote it"
        )
    if manifest.get("seal") != right_seal:
        raise BundleError(
            f"{file} was changed after it was written (its seal does not match); run `omnidraft export` again"
        )
    return manifest


def _verify_files(path: Path, manifest: dict[str, Any]) -> None:
    files = manifest.get("files")
    if not isinstance(files, dict) or not files:
        raise BundleError(f"{path / MANIFEST} lists no files; run `omnidraft export` again")
    for name, record in files.items():
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or "\\" in name:
            raise BundleError(
                f"{path / MANIFEST} names {name!r}, which is outside the bundle; do not use this bundle"
            )
        try:
            _verify_file(path, name, record)
        except (OSError, ValueError) as error:  # ValueError: a name that no file system takes
            raise BundleError(
                f"{name!r} of {path} cannot be read ({error}); copy the whole bundle or run "
                "`omnidraft export` again"
            ) from None


def _verify_file(path: Path, name: str, record: object) -> None:
    file = path / name
    expected = record.get("sha256") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(expected, str) or len(expected) != 64:
        raise BundleError(f"{path / MANIFEST} has no hash of {name}; run `omnidraft export` again")
    if not file.is_file():
        raise BundleError(f"{file} is missing; copy the whole bundle or run `omnidraft export` again")
    if file.stat().st_size != record.get("bytes"):
        raise BundleError(
            f"{file} has {file.stat().st_size} bytes instead of {record.get('bytes')}; "
            "it was cut short or changed: copy it again or run `omnidraft export` again"
        )
    if file_sha256(file) != expected:
        raise BundleError(
            f"{file} was changed (its SHA-256 does not match); copy it again or run `omnidraft export` again"
        )


def _model_entry(data: dict[str, Any]) -> ModelEntry:
    kv = {
        name: _int(data["kv"][name], 1) for name in ("num_layers", "num_kv_heads", "head_dim", "max_length")
    }
    return ModelEntry(
        source=_str(data["source"]),
        architecture=_str(data["architecture"]),
        graph=_str(data["graph"]),
        tokenizer=_str(data["tokenizer"]),
        kv=KvShape(**kv),
        vocab_size=_int(data["vocab_size"], 1),
        quantization=_str(data["quantization"]),
        bos_id=None if data["bos_id"] is None else _int(data["bos_id"], 0),
        eos_ids=tuple(_int(i, 0) for i in _list(data["eos_ids"])),
        parameters=_int(data["parameters"], 0, 1 << 53),
        layout=_layout(data.get("layout", "shared")),
    )


def _layout(value: object) -> Layout:
    if value not in LAYOUTS:
        raise ValueError(f"{value!r:.80} is no layout, which is one of {', '.join(LAYOUTS)}")
    return value


def _prompt(data: dict[str, Any]) -> PromptTemplate:
    later = (None if data[name] is None else _str(data[name]) for name in ("between", "after"))
    return PromptTemplate(_str(data["prefix"]), _str(data["suffix"]), *later)


def _costs(data: dict[str, Any]) -> Costs:
    target = tuple(_seconds(s) for s in _list(data["target"]))
    costs = Costs(target, _seconds(data["draft"]), _seconds(data["host"]))
    if not costs.target or min(*costs.target, costs.draft) <= 0.0:
        raise ValueError(f"costs {costs}")
    return costs


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def _int(value: object, least: int, most: int = (1 << 31) - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r:.80} is no whole number from {least} to {most}")
    return value


def _seconds(value: object) -> float:
    # Not above 1e9 either, which keeps out infinity, and integers that no float holds.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise ValueError(f"{value!r:.80} is no number of seconds")
    return float(value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.80} is no list")
    return value
