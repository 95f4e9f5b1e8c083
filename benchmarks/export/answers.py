"""Greedy answers of a source in torch and of its exported bundle, side by side, as markdown.

    python -m benchmarks.export.answers BUNDLE --source CHECKPOINT [--prompts N] [--tokens N]

The source runs in float32; CHECKPOINT is a Hugging Face directory or a GGUF file. Prompts are word problems
and the package's own lists of other kinds, in the chat template of the bundle. Needs torch.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from omnidraft.mixed_prompts import learned_prompts
from omnidraft.runtime.decoding.prefill import common_length
from omnidraft.runtime.session.api import load


def source_model(path: Path) -> Any:
    """The checkpoint in float32."""
    if path.is_dir():
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


def shown(text: str) -> str:
    """A text in a cell of a table."""
    return text.strip().replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    session = load(options.bundle)
    model = source_model(options.source)
    ends = list(session.bundle.target.eos_ids)
    same = 0
    lines = []
    for prompt in list(dict.fromkeys(learned_prompts(2 * options.prompts)))[: options.prompts]:
        ids = session.encode(prompt)
        with torch.inference_mode():
            output = model.generate(
                torch.tensor([ids]), do_sample=False, max_new_tokens=options.tokens, eos_token_id=ends
            )
        expected = [i for i in output[0, len(ids) :].tolist() if i not in ends]
        answer = session.generate(prompt, max_new_tokens=options.tokens).finish()
        found = [i for i in answer.token_ids if i not in ends]
        common = common_length(expected, found)
        same += expected == found
        text = session.target_tokenizer.text_of(expected).decode("utf-8", "replace")
        lines.append(
            f"| {shown(prompt)} | {shown(text)} | {shown(answer.text)} | {common} of {len(expected)} |"
        )
    print(f"{same} of {len(lines)} answers are the same to the last token.\n")
    print("| prompt | source, float32 | default export | tokens before they part |\n|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
