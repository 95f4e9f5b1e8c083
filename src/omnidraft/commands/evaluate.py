"""`omnidraft eval`: how well the target of a bundle predicts text, by itself or beside its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnidraft.commands.terminal import options, output
from omnidraft.commands.terminal.export_packages import need_export_packages
from omnidraft.commands.terminal.open_session import tell
from omnidraft.commands.terminal.output import Table
from omnidraft.errors import SettingError, reason
from omnidraft.runtime.session.api import LanguageModel
from omnidraft.runtime.session.language_model import LoadOptions
from omnidraft.sample_texts import LONGEST, NAME, SampleText, pieces_of, sample_texts
from omnidraft.text_quality import MAX_KINDS, MAX_NAME, Quality, TextQuality, measure_quality

if TYPE_CHECKING:
    from omnidraft.checkpoints.thin_model import Floats

MOST_BYTES = 1 << 24  # of a text
Source = Callable[[Sequence[int]], "Floats"]


def evaluate(
    bundle: options.BundlePath,
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="FILE",
            help="Text to measure on; repeatable (default: built-in texts).",
            readable=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The checkpoint that the target was exported from: its perplexity, KL divergence and "
            "agreement are measured, too, with torch.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how well a bundle's target predicts text: perplexity by kind, and beside its source.

    Export measures the same on the built-in texts, and `inspect` shows it. A text is read in pieces of 256
    tokens, each in a context of its own; perplexity is per token of the target.
    """
    read = list(sample_texts()) if texts is None else _read(texts)
    load = LoadOptions(drafter=False, public_key=options.signer(), measure="never")
    loaded = load.load(load.open(bundle))
    beside = None if source is None else _source(source, loaded)
    with output.progress_bar("eval", quiet=as_json) as bar:
        quality = quality_of(loaded, read, beside, NAME if texts is None else "given", bar.step)
    form = loaded.bundle.target.quantization
    if as_json:
        return options.print_json({"form": form, **quality.as_json()})
    output.out.print(quality_table(quality, loaded.bundle.path.name, form))


def quality_of(
    loaded: LanguageModel,
    texts: Sequence[SampleText],
    source: Source | None = None,
    name: str = NAME,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Quality:
    """The quality of a target's text on some texts.

    Args:
        loaded: a bundle; its drafter is not used.
        texts: what to measure on.
        source: gives the source's logits; None for none.
        progress: called with (pieces done, all pieces).

    Raises:
        SettingError: the texts hold nothing to predict.
    """
    entry = loaded.bundle.target
    start = [] if entry.bos_id is None else [entry.bos_id]
    longest = min(LONGEST, entry.kv.max_length)
    pieces = pieces_of(texts, loaded.target_tokenizer, loaded.bundle.prompt, start, longest)
    if not pieces:
        raise SettingError("the text has fewer than two tokens", "give a longer one")
    return measure_quality(loaded.target.new_model(), pieces, source, name=name, progress=progress)


def quality_table(quality: Quality, bundle: str, form: str) -> Table:
    """The figures by kind and over all, a kind a row."""
    table = Table(title=f"text of {bundle}'s target as {form}")
    against = quality.whole.source_perplexity is not None
    columns = ("kind", "tokens", "perplexity", *(("source", "change", "KL, nats", "same") if against else ()))
    for name in columns:
        table.add_column(name, justify="left" if name == "kind" else "right")
    whole = {"all": quality.whole} if len(quality.kinds) > 1 else {}
    for kind, each in (*quality.kinds.items(), *whole.items()):
        table.add_row(kind, *_cells(each))
    return table


def _cells(each: TextQuality) -> list[str]:
    cells = [f"{each.tokens:,}", f"{each.perplexity:.2f}"]
    if each.source_perplexity is None:
        return cells
    change = f"{100 * each.loss:+.1f} %"
    return [*cells, f"{each.source_perplexity:.2f}", change, f"{each.kl:.2g}", f"{each.agreement:.1%}"]


def _read(files: Sequence[Path]) -> list[SampleText]:
    """The user's texts; the kind of each is the name of its file."""
    if len(files) > MAX_KINDS:
        raise SettingError(f"{len(files)} texts are more than {MAX_KINDS}", "give fewer files")
    names = [file.name for file in files]
    texts = []
    for file in files:
        whole = file.name if names.count(file.name) == 1 else str(file)
        name = whole.encode(errors="replace")[-MAX_NAME:]  # a name need not be UTF-8
        texts.append(SampleText(name.decode(errors="ignore"), _text(file)))
    return texts


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SettingError(f"{file} has more than {MOST_BYTES:,} bytes", "give a part of it")
        return data.decode("utf-8").removeprefix("\ufeff")  # without a byte order mark
    except OSError as error:
        raise SettingError(f"{file} cannot be read ({reason(error)})", "give another file") from None
    except UnicodeDecodeError as error:
        raise SettingError(f"byte {error.start} of {file} is not UTF-8", "give another file") from None


def _source(name: str, loaded: LanguageModel) -> Source:
    """The logits of a checkpoint with the target's vocabulary."""
    need_export_packages(name)
    from omnidraft.checkpoints.checkpoint import read_checkpoint
    from omnidraft.checkpoints.control_tokens import read_tokenizer
    from omnidraft.checkpoints.fingerprint import fingerprint
    from omnidraft.export.export_memory import room_for_weights
    from omnidraft.export.measure_quality import source_rows

    checkpoint, target = read_checkpoint(name), loaded.bundle.target
    same = read_tokenizer(checkpoint.directory).fingerprint == target.tokenizer_fingerprint
    if not same or checkpoint.shape.vocab_size != target.vocab_size:
        raise SettingError(
            f"--source {name} has another vocabulary than the bundle's target",
            f"give the checkpoint of {target.source}",
        )
    rows = source_rows(checkpoint, room_for_weights(loaded.bundle.path))  # a hub id's weights are there now
    if target.fingerprint not in (None, fingerprint(checkpoint)):
        tell([f"{name} has other weights than the checkpoint that the target was exported from"])
    return rows
