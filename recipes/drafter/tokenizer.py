"""The drafter's tokenizer: byte-level BPE whose tokens are parts of the tokens of common families.

Digits stand alone, and a line end is never joined to a sign before it: small pieces can be joined to the
tokens of any target, and a target's tokens are spelled by the same pieces.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from recipes.drafter.corpus import END, SPLIT, START

SIZE = 6144
CONTEXT = 1024
_WORDS = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\r\n]+|\s+(?!\S)|\s+"
_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


def learn_tokenizer(texts: Iterable[str], folder: Path, *, size: int = SIZE) -> None:
    """Learn the tokenizer from texts and write its files to `folder`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    controls = [SPLIT, START, END]
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(controls),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in controls])
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=SPLIT,
        chat_template=_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
    )
    save_tokenizer(wrapped, folder)


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the tokenizer's files; tokenizer.json has no indentation."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    compact = json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False, separators=(",", ":"))
    path.write_text(compact + "\n", "utf-8")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"  # a name that transformers 4 knows as well
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")
