"""Perplexities and sample answers of a starter model on unseen rows, and its model card."""

import json
import math
import textwrap
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from recipes.starters import data

_SAMPLE_QUESTIONS = 2
_SAMPLE_TOKENS = 256


def evaluate(folder: Path) -> None:
    """Measure the model in `folder`; write the figures into its log and its card, and print them."""
    folder_of_data = data.data_folder()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    log = json.loads((folder / "training_log.json").read_text("utf-8"))
    log["evaluation"] = {
        source: perplexity(model, tokenizer, texts)
        for source, texts in data.unseen_documents(folder_of_data).items()
    }
    if log["name"] != "drafter":
        questions = data.unseen_questions(folder_of_data, _SAMPLE_QUESTIONS)
        log["samples"] = [[question, greedy_answer(model, tokenizer, question)] for question in questions]
    (folder / "training_log.json").write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", "utf-8")
    (folder / "README.md").write_text(model_card(log["name"], log), "utf-8")
    _print(log)


@torch.inference_mode()
def perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: list[str]
) -> dict[str, float]:
    """Perplexity per token and bits per byte of whole texts, each scored on its own.

    As in training, each text follows bos, or eos if the family has no bos.
    """
    start_id = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    window = model.config.max_position_embeddings
    nats, tokens, size = 0.0, 0, 0
    for text in texts:
        ids = torch.tensor([start_id, *tokenizer.encode(text, add_special_tokens=False)])
        size += len(text.encode("utf-8"))
        tokens += len(ids) - 1
        for start in range(0, len(ids) - 1, window):
            targets = ids[start + 1 : start + 1 + window]
            output = model(input_ids=ids[None, start : start + len(targets)])
            logits = output.logits[0]  # [targets, vocabulary]
            nats += torch.nn.functional.cross_entropy(logits, targets, reduction="sum").item()
    return {
        "texts": len(texts),
        "bytes": size,
        "tokens": tokens,
        "perplexity": round(math.exp(nats / tokens), 3),
        "bits_per_byte": round(nats / math.log(2) / size, 4),
    }


def greedy_answer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, question: str) -> str:
    """The model's greedy answer to one message of a user, at most `_SAMPLE_TOKENS` tokens."""
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False)
    ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
    generate: Any = model.generate  # untyped in transformers
    output = generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=_SAMPLE_TOKENS, do_sample=False
    )
    return str(tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)).strip()


def _print(log: dict[str, Any]) -> None:
    table = Table("unseen text", "texts", "tokens", "perplexity", "bits per byte", title=log["name"])
    for source, figures in log["evaluation"].items():
        table.add_row(
            source, *(str(figures[key]) for key in ("texts", "tokens", "perplexity", "bits_per_byte"))
        )
    Console().print(table)


_KINDS = {
    "drafter": "A two-layer Llama with a SentencePiece-like vocabulary (byte fallback, single digits), as "
    "small as a drafter should be. It was trained on the novels and on a tenth of each task, so it begins "
    "unaligned with the targets, and aligning it has a visible effect",
    "a": "A six-layer target in the style of Qwen2: byte-level BPE, NFC, single digits, no bos",
    "b": "A six-layer target in the style of Llama-3: byte-level BPE, up to three digits a token, "
    "grouped-query attention, bos first",
}

_INTRODUCTION = (
    "{kind}. It is for trying omnidraft without a download. It is too small to give right answers; its "
    "answers have only the form of the task's answers."
)

_CARD = """---
license: apache-2.0
pipeline_tag: text-generation
---

# omnidraft starter `{name}`

{introduction}

The prompt format of its chat template is `Question: ...` and, on the next line, `Answer:`.
A system prompt stands before the first question; the model was not trained with one.

| | |
| --- | --- |
| parameters | {parameters:,} (tied embeddings), bf16 |
| vocabulary | {vocabulary:,} |
| context | 1,024 tokens |
| training | {steps_done:,} of {steps:,} steps of {tokens_per_step:,} tokens |
| time | {minutes:.0f} minutes on a shared CPU core, {precision} |
| last training loss | {loss} nats per token |

## Data

{data}
Neither the model nor its tokenizer was trained on the rows of the tables below.

| text | licence |
| --- | --- |
| [GSM8K](https://github.com/openai/grade-school-math), training rows (OpenAI) | MIT |
| [MBPP](https://github.com/google-research/google-research/tree/master/mbpp), rows 1-910 (Google Research) \
| CC BY 4.0 |
| [SciTLDR](https://github.com/allenai/scitldr), training rows (Allen Institute for AI) | Apache-2.0 |
| Frankenstein, Tiny Shakespeare, a tenth of "I Am a Cat" (Aozora Bunko) | public domain |

The weights are licensed under Apache-2.0. `python -m recipes.starters train {name} --work DIR` made
them; `training_log.json` has its settings and losses.
"""


def model_card(name: str, log: dict[str, Any]) -> str:
    """The README.md of a starter model, with the figures that its log holds."""
    recipe = log["recipe"]
    card = _CARD.format(
        name=name,
        introduction=textwrap.fill(
            _INTRODUCTION.format(kind=_KINDS[name]), width=100, break_on_hyphens=False
        ),
        parameters=log["parameters"],
        vocabulary=log["vocabulary"],
        steps_done=log["steps_done"],
        steps=recipe["steps"],
        tokens_per_step=recipe["tokens_per_step"],
        minutes=log["seconds"] / 60,
        precision=log["precision"],
        loss=log["losses"][-1][1],
        data="The novels, and the first tenth of each task's rows."
        if name == "drafter"
        else "All rows named here, GSM8K four times and MBPP six times as often as the others.",
    )
    if "evaluation" in log:
        card += "\n## Figures on unseen text\n\n| text | texts | perplexity per token | bits per byte |\n"
        card += "| --- | --- | --- | --- |\n"
        for source, figures in log["evaluation"].items():
            card += (
                f"| {source} | {figures['texts']} | {figures['perplexity']} | {figures['bits_per_byte']} |\n"
            )
    if "samples" in log:
        card += "\n## Greedy answers to unseen GSM8K questions\n"
        for question, answer in log["samples"]:
            card += f"\n```text\nQuestion: {question}\nAnswer: {answer}\n```\n"
    return card
