"""`omnidraft inspect` of a bundle, an archive or a shared drafter."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.output import Table, size
from omnidraft.errors import counted
from omnidraft.packing.device_files import on_device
from omnidraft.packing.share_drafter import is_shared_drafter, users_of
from omnidraft.pair_verdict import EXPECTED, counted_texts, estimated_speed
from omnidraft.runtime.archive.archive import Archive, check_hashes
from omnidraft.runtime.archive.open_archive import is_archive, open_archive
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle
from omnidraft.runtime.bundle.memory import memory_need
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.parts.file_places import FilePlaces
from omnidraft.runtime.parts.pack_index import ONLY, WITH, WITHOUT
from omnidraft.runtime.session.measure import known_costs
from omnidraft.runtime.vocab.compiled_tokenizer import CompiledTokenizer
from omnidraft.runtime.vocab.tokenizer_file import read_tokenizer_file
from omnidraft.runtime.vocab.vocab_map import decode_vocab_map
from omnidraft.text_quality import TextQuality, read_quality


def inspect_bundle(bundle: Path, public_key: Path | None, as_json: bool) -> None:
    """Verify every hash of a bundle or an archive and show what it holds; name users of a shared drafter."""
    if is_shared_drafter(bundle):
        return _show_users(bundle, as_json)
    archive = _checked_archive(bundle, public_key, as_json) if is_archive(bundle) else None
    opened = open_bundle(bundle, public_key) if archive is None else archive.bundle
    opened = opened if opened.places.index is None else on_device(opened, opened.places.index.device)
    if as_json:
        packed = {} if archive is None else {"archive": archive_json(archive)}
        memory = {"memory": memory_json(opened), "signed_by": opened.signed_by}
        return options.print_json({**opened.manifest, **packed, **memory, "costs_here": costs_json(opened)})
    output.out.print(bundle_table(opened, WITH if archive is None else archive.index.drafter))
    for line in place_lines(opened.places, archive):
        output.say(line)


def _checked_archive(path: Path, public_key: Path | None, quiet: bool) -> Archive:
    """An archive whose hashes match and whose vocabularies fit each other; all is read where it lies."""
    archive = open_archive(path, public_key)
    with output.progress_bar("inspect", quiet=quiet) as bar:
        check_hashes(archive, bar.step)
    bundle = archive.bundle
    compiled = bundle.drafter.compiled_tokenizer, bundle.target.compiled_tokenizer
    present = [name for name in compiled if name is not None and name in archive.entries]
    if len(present) == len(compiled) and bundle.vocab_map in archive.entries:
        vocab_map = decode_vocab_map(bytes(archive.mapped(bundle.vocab_map)))
        draft, target = (
            CompiledTokenizer(read_tokenizer_file(archive.mapped(name)), name).fingerprint for name in present
        )
        vocab_map.check_fits(draft, target, bundle.drafter.vocab_size, bundle.target.vocab_size)
    return archive


def place_lines(places: FilePlaces, archive: Archive | None) -> Iterator[str]:
    """Where the files are that a bundle does not hold itself, a line each."""
    if archive is not None:
        count, total = counted(len(archive.files), "file"), size(archive.path.stat().st_size)
        parts = {WITHOUT: ", without the drafter", ONLY: ", only the drafter"}
        what = parts.get(archive.index.drafter, "")
        small = "no drafter" if archive.bundle.drafter.is_absent else f"drafter {archive.address}"
        yield f"archive for {archive.index.device}{what}: {count}, {total}, {small}"
    elif places.index is not None:
        yield f"unpacked from an archive for {places.index.device}"
    if places.index is not None and places.index.left_out:
        yield f"left out: {', '.join(places.index.left_out)}"
    if places.shared is not None:
        users = users_of(places.shared)
        yield f"the drafter is in {places.shared}, used by {', '.join(users.bundles)}"


def archive_json(archive: Archive) -> dict[str, Any]:
    """What an archive holds, as a JSON object."""
    return {
        "device": archive.index.device,
        "drafter": archive.index.drafter,
        "drafter_address": archive.address,
        "bytes": archive.path.stat().st_size,
        "entries": {name: {"begin": e.begin, "bytes": e.size} for name, e in archive.entries.items()},
        "left_out": list(archive.index.left_out),
    }


def _show_users(drafter: Path, as_json: bool) -> None:
    users = users_of(drafter.resolve())
    if as_json:
        return options.print_json(asdict(users))
    if users.bundles:
        output.say(f"{drafter}: a drafter, used by {', '.join(users.bundles)}")
    elif not users.unknown:
        output.say(f"{drafter}: a drafter that no bundle beside it uses; it can be deleted")
    if users.unknown:
        output.say(f"the manifests of {', '.join(users.unknown)} are refused, so they may use it")


def bundle_table(bundle: Bundle, part: str = WITH) -> Table:
    """A bundle's models, memory, signature and template.

    Args:
        bundle: whose hashes match.
        part: of an archive: `with` the drafter, `without` it, or `only` the drafter. Figures of a model that
            is not there are left out.
    """
    table = Table(title=f"bundle {bundle.path.name} (all hashes match)")
    for column in ("", "target", "drafter"):
        table.add_column(column)
    for name, target, drafter in (*_model_rows(bundle), *_memory_rows(bundle, part)):
        cells = ("" if part == ONLY else target), ("" if part == WITHOUT else drafter)
        if any(cells):
            table.add_row(name, *cells)
    for name, value in _pair_rows(bundle):
        table.add_row(name, value)
    return table


def _model_rows(bundle: Bundle) -> Iterator[tuple[str, str, str]]:
    absent = bundle.drafter.is_absent
    small = ("none", *[""] * (len(_NAMES) - 1)) if absent else _cells(bundle, bundle.drafter)
    yield from zip(_NAMES, _cells(bundle, bundle.target), small, strict=True)
    device = known_costs(bundle)
    target, draft = 1e3 * device.costs.target[0], 1e3 * device.costs.draft
    yield "time of one token", f"{target:.2f} ms", "" if absent else f"{draft:.2f} ms"
    yield "  where it comes from", device.origin, ""
    yield from () if absent else [("draft tokens accepted", "", _acceptance(bundle))]
    if (texts := counted_texts(bundle.manifest)) is not None:
        speed = estimated_speed(texts, device.costs)
        low, high = speed.interval
        yield "speed over plain decoding", f"{speed.ratio:.2f}x {EXPECTED} ({low:.2f}-{high:.2f})", ""
        drafted = "" if absent else f"{speed.drafts:.2f} more, drafted"
        yield "  tokens from each pass", f"1 of its own, {speed.copies:.2f} copied", drafted
    quality = read_quality(bundle.manifest)
    yield from () if quality is None else _quality_rows(quality.whole)


def _quality_rows(whole: TextQuality) -> Iterator[tuple[str, str, str]]:
    yield "perplexity, the source's", f"{whole.perplexity:.2f}, {whole.source_perplexity:.2f}", ""
    yield "  change", f"{100 * whole.loss:+.1f} %", ""
    yield "KL to the source", f"{whole.kl:.2g} nats a token", ""
    yield "same likeliest token", f"{whole.agreement:.1%}", ""


def _memory_rows(bundle: Bundle, part: str) -> Iterator[tuple[str, str, str]]:
    need, plain = memory_need(bundle), memory_need(bundle, drafter=False)
    if part == WITH:
        absent = bundle.drafter.is_absent
        yield "memory at the peak", size(need.total) if absent else "", "" if absent else size(need.total)
        yield from () if absent else [("  without the drafter", size(plain.total), "")]
    else:
        yield "memory by itself", size(plain.total), ""
        yield "memory that it adds", "", size(need.total - plain.total)
    yield "  weights", size(plain.target), size(need.drafter)
    for name, alone, together in (
        ("  KV buffers", plain.kv, need.kv),
        ("  vocabularies", plain.vocabulary, need.vocabulary),
        ("  work of a pass", plain.work, need.work),
    ):
        yield name, size(alone), size(together - alone)
    yield "  Python and onnxruntime", size(plain.base), ""


def _pair_rows(bundle: Bundle) -> Iterator[tuple[str, str]]:
    yield (
        "signature",
        f"by key {bundle.signed_by}" if bundle.signed_by else "not checked (`omnidraft verify` checks it)",
    )
    prompt, checks = bundle.prompt, bundle.manifest.get("checks")
    why = checks.get("no_system") if isinstance(checks, dict) else None
    yield "prompt template", f"{prompt.prefix!r} TEXT {prompt.suffix + prompt.begin!r}"
    none = "none" if why is None else f"none: {why}"
    slot = prompt.system
    yield "system prompt", none if slot is None else f"{slot.before!r} TEXT {slot.after!r}"
    if prompt.think is not None:
        yield "thoughts", f"{prompt.think.open} {prompt.think.close}, earlier ones: {prompt.think.earlier}"


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
    files = bundle.manifest["files"]
    graph = sum(file["bytes"] for name, file in files.items() if entry.reads(name))
    return (
        entry.source,
        entry.architecture,
        f"{entry.parameters:,}",
        entry.quantization,
        size(graph),
        f"{entry.vocab_size:,}",
        f"{entry.kv.max_length:,} tokens",
        f"{size(entry.kv_bytes)} of {entry.kv.type}",
    )


def _acceptance(bundle: Bundle) -> str:
    """As measured at export. No reader checks this entry, since no runtime needs it."""
    try:
        return f"{bundle.manifest['checks']['acceptance']['after']['of_drafted']:.1%}"
    except (KeyError, TypeError, ValueError):
        return "not recorded"


def costs_json(bundle: Bundle) -> dict[str, Any]:
    """The costs that are known of this machine, and where they come from."""
    device = known_costs(bundle)
    here = {"source": device.source, "machine": device.machine.as_json()}
    return {**here, "of_this_machine": device.are_of_this_machine, **asdict(device.costs)}


def memory_json(bundle: Bundle) -> dict[str, dict[str, int]]:
    """Bytes at the peak of a generation, with and without the drafter."""
    needs = {"generate": memory_need(bundle), "no_drafter": memory_need(bundle, drafter=False)}
    return {name: {**asdict(need), "total": need.total} for name, need in needs.items()}
