"""The recipe of the shipped drafter.

    python -m recipes.drafter texts --work DIR                     # free texts of packages in DIR/raw
    python -m recipes.drafter sample --work DIR --teacher TEACHER  # conversations, until it is ended
    python -m recipes.drafter tokenizer --work DIR
    python -m recipes.drafter train --work DIR --imitate TEACHER    # until it is ended, or for --steps
    python -m recipes.drafter train --work DIR --imitate TEACHER --decay 1000 --checkpoint decayed.pt
    python -m recipes.drafter publish --work DIR --checkpoint decayed.pt
    python -m recipes.drafter evaluate --work DIR --targets TARGET ...

TEACHER and TARGET are Hugging Face checkpoints. Every command can be ended at any time and begun again.
While DIR/quiet exists, `sample` and `train` wait. A training in a new folder goes on from the published
weights with the published samples; for the texts, unpack the packages named in texts.py and run `texts`.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer

from recipes.drafter import corpus, texts
from recipes.drafter.evaluate import evaluate
from recipes.drafter.publish import REPOSITORY, SAMPLES, add_figures, publish, unpack_samples
from recipes.drafter.sample import sample
from recipes.drafter.tokenizer import learn_tokenizer
from recipes.drafter.train import Places, Plan, Shape, train

PUBLISHED = REPOSITORY / "examples/drafter"
STARTER = REPOSITORY / "examples/starters/drafter"
_TOKENIZER_CHARACTERS = 250_000  # for each unit of a source's weight


def learn(work: Path) -> None:
    """Learn the tokenizer from the sources in the shares of the training."""
    order = random.Random(0)
    chosen: list[str] = []
    documents = corpus.load_documents(work / "samples", work / "texts.json")
    for name, found in documents.items():
        room = corpus.WEIGHTS[name] * _TOKENIZER_CHARACTERS
        for render in order.sample(found, len(found)):
            text = render(order).replace(corpus.START, "").replace(corpus.END, "")
            chosen.append(text)
            room -= len(text)
            if room < 0:
                break
    learn_tokenizer(chosen, work / "tokenizer")


def main() -> None:
    """The command line of the recipe."""
    parser = argparse.ArgumentParser(
        prog="python -m recipes.drafter",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["texts", "sample", "tokenizer", "train", "publish", "evaluate"])
    parser.add_argument("--targets", nargs="*", type=Path, default=[], help="checkpoints to evaluate on")
    parser.add_argument("--work", type=Path, required=True, help="folder of all large files")
    parser.add_argument("--teacher", help="checkpoint that writes the samples")
    parser.add_argument("--imitate", nargs="*", default=[], help="folders of tokenizers to imitate")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which sampling ends")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=_device(), help="where to compute")
    parser.add_argument("--workers", type=int, default=12, help="processes that read texts for a GPU")
    parser.add_argument("--steps", type=int, help="steps at the full rate in all")
    parser.add_argument("--decay", type=int, default=0, help="steps in which the rate falls to zero")
    parser.add_argument("--checkpoint", default="drafter.pt", help="file in the folder")
    parser.add_argument("--from-scratch", action="store_true", help="not from the published weights")
    parser.add_argument("--compile", action="store_true", help="two thirds faster; needs a C++ compiler")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    work: Path = given.work
    torch.set_num_threads(given.threads)
    if given.command == "texts":
        found = texts.free_documents(work / "raw")
        (work / "texts.json").write_text(json.dumps(found, ensure_ascii=False), "utf-8")
    elif given.command == "sample":
        openings = json.loads((work / "texts.json").read_text("utf-8"))
        books = openings["frankenstein"] + openings["moby-dick"] + openings["abstracts"]
        out, stop = work / "samples", work / "quiet"
        code = openings["python"] + openings["packages"]
        sample(given.teacher, out, books, code, device=given.device, seconds=given.seconds, stop=stop)
    elif given.command == "tokenizer":
        learn(work)
    elif given.command == "train":
        places = _places(work, work / given.checkpoint, from_scratch=given.from_scratch)
        plan = Plan(compiled=given.compile, decay=given.decay, steps=_steps(places, given.steps, given.decay))
        if given.device == "cuda":
            plan = plan.on_gpu(given.workers)
        imitated = [Tokenizer.from_file(f"{folder}/tokenizer.json") for folder in given.imitate]
        train(places, plan, Shape(), imitated)
    elif given.command == "publish":
        publish(work, work / given.checkpoint, PUBLISHED)
    else:
        lines = []
        for line in evaluate([STARTER, PUBLISHED], given.targets, work / "evaluation"):
            print(line, flush=True)
            lines.append(line)
        add_figures(PUBLISHED / "README.md", lines)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _places(work: Path, checkpoint: Path, *, from_scratch: bool) -> Places:
    """The files of a training; a new folder gets the published samples, tokenizer and weights."""
    if not (work / "samples").exists() and SAMPLES.exists():
        unpack_samples(SAMPLES, work / "samples")
    return Places(
        tokenizer=work / "tokenizer" if (work / "tokenizer").exists() else PUBLISHED,
        samples=work / "samples",
        texts=work / "texts.json",
        checkpoint=checkpoint,
        start=work / "drafter.pt",
        published=None if from_scratch else PUBLISHED,
        stop=work / "quiet",
    )


def _steps(places: Places, steps: int | None, decay: int) -> int:
    """The steps at the full rate: as given, else without end, or as many as were done before a decay."""
    if steps is not None:
        return steps
    if not decay:
        return Plan.steps
    if places.checkpoint.exists():
        plan = torch.load(places.checkpoint, weights_only=True)["log"]["plan"]
        return int(plan["steps"])
    assert places.start is not None and places.start.exists(), "a decay begins from a checkpoint"
    return int(torch.load(places.start, weights_only=True)["log"]["steps"])


if __name__ == "__main__":
    main()
