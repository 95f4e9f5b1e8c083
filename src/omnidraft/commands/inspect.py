"""`omnidraft inspect`: verify a bundle and show what is in it."""

from dataclasses import asdict

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.output import Table, size
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.model_entry import ModelEntry


def inspect(
    bundle: options.BundlePath, public_key: options.PublicKey = None, as_json: options.Json = False
) -> None:
    """Verify every hash of a bundle and show what is in it."""
    opened = open_bundle(bundle, public_key)
    if as_json:
        return options.print_json(
            {**opened.manifest, "memory": memory_json(opened), "signed_by": opened.signed_by}
        )
    output.out.print(bundle_table(opened))


def bundle_table(bundle: Bundle) -> Table:
    """A bundle's models, memory, signature and template."""
    table = Table(title=f"bundle {bundle.path.name} (all hashes match)")
    for column in ("", "target", "drafter"):
        table.add_column(column)
    target, drafter = _cells(bundle, bundle.target), _cells(bundle, bundle.drafter)
    for row in zip(_NAMES, target, drafter, strict=True):
        table.add_row(*row)
    costs = bundle.costs
    table.add_row(
        "one token here, at export", f"{1e3 * costs.target[0]:.2f} ms", f"{1e3 * costs.draft:.2f} ms"
    )
    for when in ("before", "after"):
        table.add_row(f"acceptance {when} quantisation", "", _acceptance(bundle, when))
    with_drafter, plain = memory_need(bundle), memory_need(bundle, drafter=False)
    table.add_row("memory at the peak", "", size(with_drafter.total))
    table.add_row("  without the drafter", size(plain.total), "")
    table.add_row("  weights", size(plain.target), size(with_drafter.drafter))
    for name, alone, together in (
        ("  KV buffers", plain.kv, with_drafter.kv),
        ("  vocabularies", plain.vocabulary, with_drafter.vocabulary),
        ("  work of a pass", plain.work, with_drafter.work),
    ):
        table.add_row(name, size(alone), size(together - alone))
    table.add_row("  Python and onnxruntime", size(plain.base), "")
    signed = f"by key {bundle.signed_by}" if bundle.signed_by else "not checked (--public-key checks it)"
    table.add_row("signature", signed)
    table.add_row("prompt template", f"{bundle.prompt.prefix!r} TEXT {bundle.prompt.suffix!r}")
    return table


_NAMES = (
    "source",
    "architecture",
    "parameters",
    "quantisation",
    "graph",
    "vocabulary (logits)",
    "context",
    "KV buffers",
)


def _cells(bundle: Bundle, entry: ModelEntry) -> tuple[str, ...]:
    """The cells of one model, in the order of `_NAMES`."""
    files = bundle.manifest["files"]
    graph = sum(file["bytes"] for name, file in files.items() if name.startswith(entry.graph))
    return (
        entry.source,
        entry.architecture,
        f"{entry.parameters:,}",
        entry.quantization,
        size(graph),
        f"{entry.vocab_size:,}",
        f"{entry.kv.max_length:,} tokens",
        size(entry.kv_bytes),
    )


def _acceptance(bundle: Bundle, when: str) -> str:
    """As measured at export. No reader checks this entry, since no runtime needs it."""
    try:
        return f"{bundle.manifest['checks']['acceptance'][when]['of_drafted']:.1%}"
    except (KeyError, TypeError, ValueError):
        return "not recorded"


def memory_json(bundle: Bundle) -> dict[str, dict[str, int]]:
    """Bytes at the peak of a generation, with and without the drafter."""
    needs = {"generate": memory_need(bundle), "no_drafter": memory_need(bundle, drafter=False)}
    return {name: {**asdict(need), "total": need.total} for name, need in needs.items()}
