"""Make the directories beside this file: tiny checkpoints with random weights, exported by Optimum itself.

In an environment of its own, since Optimum's exporter does not go with the transformers of omnidraft:

    python -m venv .venv-optimum
    .venv-optimum/bin/pip install optimum==2.1.0 optimum-onnx==0.1.0 transformers==4.57.6 torch==2.13.0 \
        onnx==1.23.2 onnxruntime==1.31.1
    .venv-optimum/bin/python tests/data/optimum/make.py [WHERE]
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from optimum.exporters.onnx import main_export
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LlamaConfig, PreTrainedTokenizerFast

TEXT = (
    "the cat sat on the mat and the dog sat on the log; there is a house in the wood, and who is in there? "
)
VOCAB = 288
# Weights this large spread the logits, so that rounding decides no argmax.
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
MODELS = {
    "llama": LlamaConfig(intermediate_size=64, num_key_value_heads=1, head_dim=16, **SIZES),
    "gpt-neox": GPTNeoXConfig(intermediate_size=64, **SIZES),
}


def make_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE with a few merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")  # type: ignore[no-untyped-call]


def make(name: str, where: Path) -> None:
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(MODELS[name], dtype=torch.float32)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / name
        model.save_pretrained(checkpoint)
        make_tokenizer().save_pretrained(checkpoint)
        exported = Path(temporary) / "exported"
        # What `optimum-cli export onnx --model CHECKPOINT --task text-generation-with-past DIRECTORY` runs.
        main_export(str(checkpoint), exported, task="text-generation-with-past", do_validation=True)
        shutil.rmtree(where / name, ignore_errors=True)
        shutil.copytree(exported, where / name)
        if name == "llama":  # the same weights for our own exporter
            shutil.rmtree(where / "llama-checkpoint", ignore_errors=True)
            shutil.copytree(checkpoint, where / "llama-checkpoint")
    for file in where.glob("*/*.json"):  # data that nobody reads: a line each
        value = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for each in MODELS:
        make(each, place)
