"""The published drafter: bf16 weights, tokenizer, log, model card, and the samples that it learned from."""

import json
import lzma
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from recipes.drafter.corpus import WEIGHTS
from recipes.drafter.texts import LICENCES
from recipes.drafter.tokenizer import save_tokenizer
from recipes.drafter.train import Shape, new_model

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "recipes/drafter/samples.jsonl.xz"
MOST_SAMPLES = 8_000_000  # bytes of the file
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

_CARD = """---
license: apache-2.0
pipeline_tag: text-generation
---

# omnidraft drafter

A small language model that drafts for larger ones, whatever their vocabulary: general English, chat, stories,
lists, summaries, mathematics in words, and code. It is no assistant: what it says need not be true.

| | |
| --- | --- |
| parameters | {parameters:,} (Llama, tied embeddings), bf16 |
| vocabulary | {vocabulary:,}, byte-level BPE |
| context | 1,024 tokens |
| training | {tokens:,} tokens in {minutes:.0f} minutes on {device}, bf16 autocast |
| last training loss | {loss} nats per token |

## Data

| source | characters | share of the training | licence |
| --- | --- | --- | --- |
{sources}

The samples are conversations and texts written by SmolLM2-135M-Instruct (Hugging Face, Apache-2.0; the Q4_1
file). Their requests are by the model itself, from word lists of this project, from heads of functions of
the Python code, or from training rows of GSM8K, MBPP and SciTLDR. Those in the repository, of which the table
has the characters, are a random part of those that were used. Not used: the test rows of GSM8K, HumanEval,
the rows of MBPP after the 910th, and the other splits of SciTLDR.

The weights are licensed under Apache-2.0. `python -m recipes.drafter` made them; `training_log.json` has the
settings and losses.
"""


def publish(work: Path, checkpoint: Path, folder: Path) -> None:
    """Write the model of a checkpoint to `folder`, and the samples into the recipe."""
    state = torch.load(checkpoint, weights_only=True)
    log: dict[str, Any] = {"name": "drafter", **state["log"]}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")
    save_tokenizer(tokenizer, folder)
    model = new_model(tokenizer, Shape(**log["shape"]))
    model.load_state_dict(state["model"])
    found = json.loads((work / "texts.json").read_text("utf-8"))
    sizes = {name: sum(map(len, documents)) for name, documents in found.items()}
    rows = pack_samples(work / "samples", SAMPLES, MOST_SAMPLES)
    sizes["samples"] = sum(len(str(json.loads(line)["answer"])) for line in rows)
    log["characters"] = sizes
    card = _CARD.format(
        parameters=log["parameters"],
        vocabulary=len(tokenizer),
        tokens=log["tokens"],
        minutes=log["seconds"] / 60,
        device="one GPU" if log["plan"]["device"] == "cuda" else "one CPU core",
        loss=log["losses"][-1][1],
        sources="\n".join(_source(name, size) for name, size in sizes.items() if name in WEIGHTS),
    )
    write_model(folder, model, log, card)


def write_model(folder: Path, model: LlamaForCausalLM, log: dict[str, Any], card: str) -> None:
    """Write the model's bf16 weights, its log and its card to `folder`, which holds its tokenizer.

    All files are written to a new folder, which then replaces the old one, so a reader never finds an
    incomplete model.
    """
    staging = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    half = type(model)(model.config)
    half.load_state_dict(model.state_dict())
    half.bfloat16()
    half.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=model.config.bos_token_id, eos_token_id=model.config.eos_token_id, do_sample=False
    )
    half.save_pretrained(staging)
    (staging / "model.safetensors").chmod(0o644)  # safetensors writes it readable by its owner only
    for name in _TOKENIZER_FILES:
        shutil.copyfile(folder / name, staging / name)
    fields = (f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in log.items())
    (staging / "training_log.json").write_text("{\n" + ",\n".join(fields) + "\n}\n", "utf-8")
    (staging / "README.md").write_text(card, "utf-8")
    retired = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(retired, ignore_errors=True)
    folder.rename(retired)
    staging.rename(folder)
    shutil.rmtree(retired)


_FIGURES = """
## Acceptance

The share of positions of a target's greedy text (40 prompts that no training saw, 96 tokens each) at which
the drafter's greedy tokens write the next token; `python -m recipes.drafter evaluate`. A base model gets
questions without a template. The starters' drafter stands beside it.

"""


def add_figures(card: Path, lines: Sequence[str]) -> None:
    """Write the lines of an evaluation to the end of a card, in place of older ones."""
    text = card.read_text("utf-8").split("\n## Acceptance", 1)[0]
    card.write_text(text + _FIGURES + "".join(f"- {line}\n" for line in lines), "utf-8")


def _source(name: str, size: int) -> str:
    share = WEIGHTS[name] / sum(WEIGHTS.values())
    return f"| {name} | {size:,} | {share:.1%} | {LICENCES[name]} |"


def pack_samples(samples: Path, packed: Path, most: int) -> list[str]:
    """Write the rows of the samples, or the newest that fit into `most` bytes, as xz; returns all rows."""
    lines = [
        line
        for path in sorted(samples.glob("*.jsonl"))
        for line in path.read_text("utf-8").split("\n")
        if line
    ]
    kept = lines
    while len(data := lzma.compress("\n".join(kept).encode("utf-8"), preset=9)) > most:
        kept = kept[len(kept) // 10 + 1 :]
    packed.write_bytes(data)
    return lines


def unpack_samples(packed: Path, samples: Path) -> None:
    """Write the rows of an xz file into a folder of samples, as its first file."""
    samples.mkdir(parents=True, exist_ok=True)
    text = lzma.decompress(packed.read_bytes()).decode("utf-8")
    (samples / "00000-packed.jsonl").write_text(text + "\n", "utf-8")
