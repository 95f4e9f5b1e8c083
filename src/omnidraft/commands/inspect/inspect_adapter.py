"""`omnidraft inspect` of an adapter."""

from pathlib import Path
from typing import Any

from omnidraft.commands.terminal.options import print_json
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter
from omnidraft.runtime.models.adapter_file import metadata_of, read_adapter
from omnidraft.runtime.models.adapter_fit import fit
from omnidraft.runtime.vocab.vocab_map import load_vocab_map


def inspect_adapter(file: Path, bundle: Bundle | None, as_json: bool) -> None:
    """Verify an adapter and show what is in it; with a bundle, also check that it fits."""
    adapter = read_adapter(file)
    fits: dict[str, str] = {}
    if bundle is not None:
        role, _ = fit(adapter, bundle, load_vocab_map(bundle.file(bundle.vocab_map)))
        fits = {"role": role, "bundle": str(bundle.path)}
    if as_json:
        return print_json({**summary(adapter), **fits})
    print(f"{file}: {line_of(adapter)}")
    print(f"  made {adapter.created} on the weights {adapter.base[:12]}, digest {adapter.digest[:12]}")
    print(f"  tokenizers: drafter {adapter.draft_tokenizer[:12]}, target {adapter.target_tokenizer[:12]}")
    if fits:
        print(f"  fits the {fits['role']} of {fits['bundle']}")


def summary(adapter: Adapter) -> dict[str, Any]:
    """An adapter's metadata and sizes as a JSON object."""
    return {
        **metadata_of(adapter),
        "rank": adapter.rank,
        "targets": [each for each in metadata_of(adapter)["targets"].split(",") if each],
        "digest": adapter.digest,
        "sites": len(adapter.tensors),
        "parameters": parameters(adapter),
    }


def parameters(adapter: Adapter) -> int:
    """The number of values in all tensors."""
    return sum(int(tensor.size) for tensor in adapter.named.values())


def line_of(adapter: Adapter) -> str:
    """What an adapter holds, in a line."""
    targets = metadata_of(adapter)["targets"].replace(",", ", ")
    products = f"rank {adapter.rank} at {len(adapter.tensors)} products ({targets})"
    return f"{products}, {parameters(adapter):,} values"
