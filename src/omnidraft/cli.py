"""The command line: thin, each command calls one function and shows what it returns."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from omnidraft import __version__
from omnidraft.commands import options
from omnidraft.errors import OmnidraftError
from omnidraft.runtime.generate import Request, load

app = typer.Typer(
    name="omnidraft",
    help="One small drafter that speeds up any target language model, without changing what it says.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BundlePath = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A directory made by `omnidraft export`.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of a target pass [default: by its size].")]
Lengths = Annotated[
    str, typer.Option("--num-draft-tokens", "-k", help="Draft tokens in each round; auto: as many as pay.")
]
Temperature = Annotated[float, typer.Option("--temperature", "-t", help="0 is greedy.")]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", help="Output tokens at most.")]
Stop = Annotated[
    list[str] | None, typer.Option(help="Text that ends the output and is no part of it; may be repeated.")
]
NoDrafter = Annotated[
    bool, typer.Option("--no-drafter", help="Do not load the drafter: slower, and less memory.")
]
ModeOption = Annotated[
    str, typer.Option(help="trie, match, direct (exact), or paper (approximate above temperature 0).")
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
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Control tokens that mean the same, as DRAFTER=TARGET: '<think>=<think>'."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a bundle that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Turn a target and a drafter into a bundle for onnxruntime, and check it.

    The graphs are compared with torch and the drafter's acceptance is measured before and after
    quantisation; an export whose drafter broke fails and leaves nothing behind.
    """
    from omnidraft.commands import view
    from omnidraft.export.bundle import Options, export_bundle

    chosen = Options(
        options.quantization(quant, block),
        None if drafter_quant is None else options.quantization(drafter_quant, block),
        max_length,
        overwrite,
        pairs=tuple(pair or ()),
    )
    with view.progress_bar("export") as bar:
        report = export_bundle(target, drafter, out, chosen, bar.stage)
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
    stop: Stop = None,
    plain: Annotated[bool, typer.Option("--plain", help="The target alone; nothing is drafted.")] = False,
    no_drafter: NoDrafter = False,
    raw: Annotated[bool, typer.Option("--raw", help="Leave out the bundle's prompt template.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write on from a prompt. Its law is the target's own; drafting only saves time."""
    from omnidraft.commands import generate as answer
    from omnidraft.commands import view

    session, reason = answer.open_session(bundle, threads=threads, drafter=not no_drafter)
    if reason:
        view.err.print(f"omnidraft: {reason}")
    found = session.generate(
        sys.stdin.read() if prompt == "-" else prompt,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        mode="plain" if plain else mode,  # type: ignore[arg-type] # any text; a wrong one is refused there
        num_draft_tokens=options.lengths(num_draft_tokens),
        stop=tuple(stop or ()),
        raw=raw,
    )
    if as_json:
        return _print_json(answer.as_json(found.finish(), len(session.cache)))
    for piece in found:
        sys.stdout.write(piece.text)
        sys.stdout.flush()
    view.err.print(f"\n[dim]{answer.summary(found, len(session.cache))}[/dim]")


@app.command()
def chat(
    bundle: BundlePath,
    max_new_tokens: MaxNewTokens = 512,
    temperature: Temperature = 0.0,
    seed: Annotated[int | None, typer.Option(help="Repeats sampled answers [default: drawn anew].")] = None,
    mode: ModeOption = "trie",
    num_draft_tokens: Lengths = "auto",
    stop: Stop = None,
    no_drafter: NoDrafter = False,
    threads: Threads = None,
) -> None:
    """Talk to a bundle in the terminal; Ctrl-C cancels an answer, /help lists commands."""
    from omnidraft.commands import view
    from omnidraft.commands.chat import Chat
    from omnidraft.commands.generate import open_session

    lengths, said = options.lengths(num_draft_tokens), tuple(stop or ())
    request = Request(max_new_tokens, temperature, seed, mode, lengths, said)  # type: ignore[arg-type]
    request.check()
    session, reason = open_session(bundle, threads=threads, drafter=not no_drafter)
    if reason:
        view.err.print(f"omnidraft: {reason}")
    Chat(session, request, sys.stdin, sys.stdout).run()


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
    view.out.print(view.comparison_table(found, options.short(drafter), options.short(target)))


@app.command()
def inspect(bundle: BundlePath, as_json: Json = False) -> None:
    """Verify every hash of a bundle and show what is in it."""
    from omnidraft.commands import view
    from omnidraft.runtime.bundle import open_bundle

    found = open_bundle(bundle)
    if as_json:
        return _print_json({**found.manifest, "memory": view.memory_json(found)})
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
            PROMPTS if prompts is None else options.lines(prompts),
            max_new_tokens=max_new_tokens,
            num_draft_tokens=options.lengths(num_draft_tokens),
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
