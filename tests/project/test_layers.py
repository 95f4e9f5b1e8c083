"""The import rule of the rooms (CONTRIBUTING.md): a module imports only from rooms further left.

Every module of the package is looked at, however deep, and every import in it, also inside functions.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.parsed import parsed
from support.places import ROOT

SOURCE = ROOT / "src"
# From left to right; rooms between the same bars do not import each other.
LAYERS = [
    ["defaults", "errors", "notice", "version"],
    ["runtime.disk"],
    ["runtime.vocab"],
    ["runtime.grammar"],
    ["grammar"],
    ["runtime.decoding"],
    ["runtime.device"],
    ["runtime.chat"],
    ["runtime.parts"],
    ["runtime.bundle", "runtime.traces"],
    ["runtime.archive"],
    ["runtime.models"],
    ["runtime.session"],
    ["learning.positions", "serve"],
    ["learning.step"],
    ["learning"],
    ["learning.online"],
    ["sample_prompts"],
    ["checkpoints", "packing", "signing", "mixed_prompts", "sample_texts"],
    ["pair_verdict", "text_quality"],
    ["sync"],
    ["training.data"],
    ["training.objectives"],
    ["training"],
    ["export.graph"],
    ["export.adopt"],
    ["export.quantize"],
    ["export.npu"],
    ["export.train_step"],
    ["export.tokenizer"],
    ["export.choose"],
    ["export"],
    ["doctor"],
    ["commands.terminal"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
STANDARD = sys.stdlib_module_names
NOT_PURE = {"time", "pathlib", "threading", "tempfile", "random"}  # clocks, files, hidden randomness
LIGHT = {"numpy", "onnxruntime", "tokenizers", "safetensors"}  # of runtime and learning
PURE = {"numpy"}  # of the portable core
CORE_VOCAB = {"trie", "ngram_cache", "cache_table"}
NEEDS_TORCH = ("checkpoints", "training", "export")


def modules() -> dict[str, Path]:
    """Every module by its dotted name without the package's own."""
    files = sorted((SOURCE / "omnidraft").rglob("*.py"))
    names = {f: ".".join(f.relative_to(SOURCE / "omnidraft").with_suffix("").parts) for f in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


MODULES = modules()


@cache
def imports(file: Path) -> tuple[str, ...]:
    """Full names of what a file imports, of a `from` import each name too where it is a module."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{file}: a relative import"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name for name in inside if name.removeprefix("omnidraft.") in MODULES]
            yield from found or [node.module]


def room_of(name: str) -> str:
    """The room of a module: the longest of its beginnings that is one."""
    parts = name.split(".")
    beginnings = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next(each for each in beginnings if each in RANK)


def test_modules_import_from_rooms_further_left() -> None:
    wrong = []
    for name in MODULES.keys() - {"__init__", "runtime"}:
        room = room_of(name)
        for full in imports(MODULES[name]):
            if full.startswith("omnidraft."):
                other = room_of(full.removeprefix("omnidraft."))
                if other != room and RANK[other] >= RANK[room]:
                    wrong.append(f"{name} ({room}) imports {full} ({other})")
    assert wrong == []


def test_every_room_has_modules() -> None:
    """A room that is gone would leave the rule above without effect."""
    rooms = {room_of(name) for name in MODULES if name not in ("__init__", "runtime")}
    assert rooms == set(RANK)


def test_the_runtime_and_learning_need_little() -> None:
    """cryptography is imported inside a function, where somebody gives a public key; jinja2 for templates."""
    templates = {"runtime.chat.render_template": {"jinja2"}, "runtime.bundle.jinja_template": {"jinja2"}}
    asked = {"runtime.bundle.signature": {"cryptography"}, **templates}
    for name in (n for n in MODULES if n.startswith(("runtime", "learning"))):
        core = name.startswith("runtime.decoding") or name.removeprefix("runtime.vocab.") in CORE_VOCAB
        allowed = PURE if core else LIGHT | asked.get(name, set())
        for full in imports(MODULES[name]):
            first = full.split(".")[0]
            assert first == "omnidraft" or first in allowed or first in STANDARD, f"{name} imports {full}"
            assert not core or full not in NOT_PURE, (
                f"{name} imports {full}: the core reads no file and no clock"
            )


def test_torch_is_imported_where_it_may_be() -> None:
    heavy = {"torch", "transformers", "accelerate", "optimum", "onnxscript"}
    for name in (n for n in MODULES if not n.startswith(NEEDS_TORCH)):
        firsts = {full.split(".")[0] for full in imports(MODULES[name])}
        assert firsts.isdisjoint(heavy), f"{name} imports {firsts & heavy}"


def test_stems_of_the_runtime_are_unique() -> None:
    """A Swift target cannot hold two files of one name."""
    stems = Counter(file.stem for name, file in MODULES.items() if name.startswith(("runtime", "learning")))
    del stems["__init__"]
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_public_class_names_are_unique() -> None:
    classes = Counter[str]()
    for file in MODULES.values():
        tree = parsed(file)
        classes.update(n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_")
    assert len(classes) > 200
    assert [name for name, count in classes.items() if count > 1] == []
