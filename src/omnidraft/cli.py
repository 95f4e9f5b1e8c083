"""The command line: thin, each command calls one function and shows what it returns."""

import json
import platform
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft import __version__
from omnidraft.commands import cache as cache_commands
from omnidraft.errors import OmnidraftError, SettingError
from omnidraft.runtime.generate import Generation, load

app = typer.Typer(
    name="omnidraft",
    help="One small drafter that speeds up any target language model, without changing what it says.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cache_commands.app, name="cache")

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of a target pass [default: by its size].")]
Lengths = Annotated[
    str, typer.Option("--num-draft-tokens", "-k", help="Draft tokens in each round; auto: as many as pay.")
]
Temperature = Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", help="Output tokens at most.")]
ModeOption = Annotated[
    str,
    typer.Option(
        help="trie, match, direct, lookup (copies from the context): exact; paper: only at temperature 0."
    ),
]


@app.command()
def export(
    target: Annotated[str, typer.Argument(help="The model to speed up: a Hugging Face directory or hub id.")],
    drafter: Annotated[str, typer.Option("--drafter", "-d", help="The small model, likewise.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle directory to make.")],
    quant: Annotated[str, typer.Option(help="Weights of the target: fp32, int8 or int4.")] = "int4",
    drafter_quant: Annotated[
        str | None, typer.Option(help="Weights of the drafter [default: --quant].")
    ] = None,
    block: Annotated[int, typer.Option(help="Weights that share a scale: 32 (closer) or 128 (faster).")] = 32,
    max_length: Annotated[
        int | None,
        typer.Option(help="Tokens that the context holds [default: the models' own, at most 2048]."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a bundle that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Turn a target and a drafter into a bundle for onnxruntime, and check it.

    The graphs are compared with torch and the drafter's acceptance is measured before and after
    quantisation; an export whose drafter broke fails and leaves nothing behind.
    """
    _need_export_packages()
    from omnidraft.commands import view
    from omnidraft.export.bundle import Options, export_bundle

    options = Options(
        _quantization(quant, block),
        None if drafter_quant is None else _quantization(drafter_quant, block),
        max_length,
        overwrite,
    )
    with view.progress_bar("export") as bar:
        report = export_bundle(target, drafter, out, options, bar.stage)
    if as_json:
        return _print_json({**asdict(report), "path": str(report.path)})
    view.out.print(f"{report.path}: {view.size(report.bytes)}")
    for role, each in report.parity.items():
        for name, parity in each.items():
            view.out.print(
                f"  {role} {name} against torch: max difference {parity.max_difference:.2g}, "
                f"greedy agreement {parity.greedy_agreement:.1%} of {parity.positions} positions"
            )
    view.out.print(
        f"  acceptance of the drafter: {report.before.of_drafted:.1%} before quantisation "
        f"({report.before.tokens_per_target_pass:.2f} tokens per target pass), "
        f"{report.after.of_drafted:.1%} as exported ({report.after.tokens_per_target_pass:.2f})"
    )


@app.command()
def generate(
    bundle: BundlePath,
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    max_new_tokens: MaxNewTokens = 128,
    temperature: Temperature = 0.0,
    seed: Annotated[int | None, typer.Option(help="Repeats a sampled text [default: drawn anew].")] = None,
    mode: ModeOption = "trie",
    num_draft_tokens: Lengths = "auto",
    plain: Annotated[bool, typer.Option("--plain", help="The target alone, without the drafter.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Leave out the bundle's prompt template.")] = False,
    top_k: Annotated[int, typer.Option(help="Keep so many of the most probable tokens; 0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Keep the most probable tokens of this mass.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Keep this share of the largest probability and more.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: repeats become less likely.")] = 1.0,
    verification: Annotated[
        str, typer.Option(help="Of mode trie above temperature 0: token, block; auto: as pays.")
    ] = "auto",
    logprobs: Annotated[
        bool, typer.Option("--logprobs", help="With --json: a log-probability a token.")
    ] = False,
    threads: Threads = None,
    cache: Annotated[
        Path | None, typer.Option(help="Learned n-grams: read if it is there, written back at the end.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write on from a prompt. Its law is the target's own; drafting only saves time."""
    from omnidraft.commands import view

    session = load(bundle, threads=threads, cache=cache)
    if session.cache_notice:
        sys.stderr.write(f"omnidraft: {session.cache_notice}\n")
    found = session.generate(
        sys.stdin.read() if prompt == "-" else prompt,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        mode="plain" if plain else mode,  # type: ignore[arg-type] # any text; a wrong one is refused there
        num_draft_tokens=_lengths(num_draft_tokens),
        raw=raw,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        verification=verification,  # type: ignore[arg-type] # likewise
        logprobs=logprobs,
    )
    try:
        for piece in found:
            if not as_json:
                sys.stdout.write(piece.text)
                sys.stdout.flush()
    finally:  # also what an interrupted answer taught
        if cache is not None:
            session.save_cache(cache)
    if as_json:
        return _print_json(_generation_json(found, len(session.cache)))
    s = found.statistics
    view.err.print(
        f"\n[dim]{s.emitted} tokens in {s.total_seconds:.2f} s "
        f"({s.emitted / max(s.total_seconds, 1e-9):.0f} a second), "
        f"{s.tokens_per_target_pass:.2f} per target pass, "
        f"{s.acceptance_of_drafted:.0%} of {s.drafted} draft tokens accepted, "
        f"{len(session.cache)} n-grams learned; ended by {found.stop_reason}, seed {found.seed}[/dim]"
    )


@app.command()
def check(
    drafter: Annotated[str, typer.Argument(help="The drafter's directory or tokenizer.json.")],
    target: Annotated[str, typer.Argument(help="The target's directory or tokenizer.json.")],
    as_json: Json = False,
) -> None:
    """Compare two vocabularies as bytes: what the drafter can write of the target's language."""
    from omnidraft.commands import view
    from omnidraft.commands.check import compare

    with view.progress_bar("compare") as bar:
        found = compare(drafter, target, bar.step)
    if as_json:
        return _print_json(asdict(found))
    view.out.print(view.comparison_table(found, _short(drafter), _short(target)))


@app.command()
def inspect(bundle: BundlePath, as_json: Json = False) -> None:
    """Verify every hash of a bundle and show what is in it."""
    from omnidraft.commands import view
    from omnidraft.runtime.bundle import open_bundle

    found = open_bundle(bundle)
    if as_json:
        return _print_json(found.manifest)
    view.out.print(view.bundle_table(found))


@app.command()
def bench(
    bundle: BundlePath,
    prompts: Annotated[
        Path | None, typer.Option(help="A text file with a prompt on each line [default: built in].")
    ] = None,
    max_new_tokens: MaxNewTokens = 128,
    num_draft_tokens: Lengths = "auto",
    mode: ModeOption = "trie",
    temperature: Temperature = 0.0,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Time this machine first, for the draft length.")
    ] = True,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Time plain decoding against speculation, interleaved, prompt by prompt."""
    from omnidraft.commands import bench as benchmark
    from omnidraft.commands import view
    from omnidraft.export.prompts import PROMPTS

    session = load(bundle, threads=threads)
    if measure:
        session.measure(PROMPTS[0])
    with view.progress_bar("bench") as bar:
        found = benchmark.bench(
            session,
            PROMPTS if prompts is None else _lines(prompts),
            max_new_tokens=max_new_tokens,
            num_draft_tokens=_lengths(num_draft_tokens),
            mode=mode,  # type: ignore[arg-type] # any text; a wrong one is refused there
            temperature=temperature,
            progress=bar.step,
        )
    if as_json:
        return _print_json(benchmark.as_json(found))
    view.out.print(view.bench_table(found))


@app.command()
def demo(
    place: Annotated[Path, typer.Option("--out", "-o", help="Where the bundles and the picture go.")] = Path(
        "omnidraft-demo"
    ),
    as_json: Json = False,
) -> None:
    """Export both starter pairs, answer a prompt with each, and draw plain against speculative."""
    _need_export_packages()
    from omnidraft.commands import bench as benchmark
    from omnidraft.commands import demo as demonstration
    from omnidraft.commands import view
    from omnidraft.export.prompts import PROMPTS

    with view.progress_bar("export") as bar:
        bundles = demonstration.export_starters(place, bar.stage)
    shown = []
    for bundle in bundles:
        with view.progress_bar(f"time {bundle.name}") as bar:
            shown.append(demonstration.show(bundle, PROMPTS, bar.step))
    picture = place / "speed.png"
    demonstration.draw(shown, picture)
    if as_json:
        return _print_json(
            {s.name: {"text": s.text, "learned": s.learned, **benchmark.as_json(s.result)} for s in shown}
        )
    view.show_demo(shown, demonstration.PROMPT, picture)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _need_export_packages() -> None:
    """Say what is missing instead of failing on an import."""
    missing = [
        name for name in ("torch", "transformers", "optimum", "onnx", "onnxscript") if not find_spec(name)
    ]
    if missing:
        raise SettingError(
            f"exporting needs {', '.join(missing)}, which this Python "
            f"({platform.python_version()}) does not have; "
            "run `pip install 'omnidraft[all]'` with Python 3.11, 3.12 or 3.13"
        )


def _quantization(name: str, block: int) -> Any:
    from omnidraft.export.quantize import Quantization

    bits = {"fp32": 32, "int8": 8, "int4": 4}
    if name not in bits:
        raise SettingError(f'quantisation "{name}" is unknown; use {", ".join(bits)}')
    return Quantization(bits[name], block)


def _lengths(text: str) -> Any:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingError(f'--num-draft-tokens "{text}" is neither a number nor auto; 4 is usual') from None


def _lines(file: Path) -> list[str]:
    try:
        found = [line.strip() for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"{file} cannot be read as UTF-8 text ({error}); give a prompt on each line"
        ) from None
    if not found:
        raise SettingError(f"{file} holds no prompts; give one on each line")
    return found


def _short(name: str) -> str:
    path = Path(name)
    return path.parent.name if path.name == "tokenizer.json" else path.name


def _generation_json(found: Generation, cache_size: int) -> dict[str, Any]:
    s = found.statistics
    return {
        "text": found.text,
        "token_ids": found.token_ids,
        **({"logprobs": found.logprobs} if found.logprobs else {}),
        "stop_reason": found.stop_reason,
        "seed": found.seed,
        "prompt_tokens": len(found.prompt_ids),
        "rounds": s.rounds,
        "drafted": s.drafted,
        "accepted": s.accepted,
        "emitted": s.emitted,
        "tokens_per_target_pass": s.tokens_per_target_pass,
        "acceptance_of_drafted": s.acceptance_of_drafted,
        "acceptance_of_tested": s.acceptance_of_tested,
        "cache_size": cache_size,
        "seconds": s.seconds,
    }


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    """Run the command line: a refusal is one sentence on standard error and exit status 1."""
    try:
        app()
    except OmnidraftError as error:
        sys.stderr.write(f"omnidraft: {error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
