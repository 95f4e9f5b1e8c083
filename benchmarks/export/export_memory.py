"""Memory and time of an export in int4, for random models in the shapes of Qwen2.5.

    python -m benchmarks.export.export_memory --tokenizer DIRECTORY_OF_QWEN2S_TOKENIZER [--sizes 0.5B 1.5B]

Each model is made and exported in processes of its own, so that the peak is that of one export: resident
memory, mapped files included. The largest model needs 12 GB of disk; all files are deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTERS = Path(__file__).resolve().parent.parent / "examples/starters"
GB = 1e9


@dataclass(frozen=True)
class Row:
    """One export: parameters, bytes of the checkpoint in bfloat16, peak resident bytes, seconds."""

    name: str
    parameters: int
    checkpoint: int
    peak: int
    seconds: float
    limits: int

    @property
    def allowed(self) -> float:
        """Bytes: 2.5 times the checkpoint and 2 GB."""
        return 2.5 * self.checkpoint + 2 * GB


SHAPES: dict[str, dict[str, Any]] = {
    "0.1B": {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "intermediate_size": 2048},
    "0.5B": {
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "intermediate_size": 4864,
    },
    "1.5B": {
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "intermediate_size": 8960,
    },
}


def make(shape: dict[str, Any], tokenizer: Path, directory: Path) -> None:
    """A random checkpoint in bfloat16 with Qwen2's 151,936 logits and a tied head."""
    import torch
    import transformers

    config = transformers.Qwen2Config(
        **shape,
        num_key_value_heads=2,
        vocab_size=151936,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=None,
        eos_token_id=151645,
        pad_token_id=151643,
    )
    torch.manual_seed(0)
    make = transformers.AutoModelForCausalLM.from_config
    model = make(config, dtype=torch.bfloat16)  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    for file in tokenizer.glob("tokenizer*.json"):
        shutil.copyfile(file, directory / file.name)


def measure(name: str, tokenizer: Path, place: Path, check_memory: float | None) -> Row:
    """Make a model, export it with the small starter drafter, delete both."""
    checkpoint, out = place / "checkpoint", place / "bundle"
    arguments = f"SHAPES[{name!r}], Path({str(tokenizer)!r}), Path({str(checkpoint)!r})"
    program = f"from benchmarks.export.export_memory import *; make({arguments})"
    subprocess.run([sys.executable, "-c", program], check=True)
    size = sum(file.stat().st_size for file in checkpoint.glob("*.safetensors"))
    command = [
        sys.executable,
        "-m",
        "omnidraft.cli",
        "export",
        str(checkpoint),
        "-d",
        str(STARTERS / "drafter"),
    ]
    command += ["-o", str(out), "--quant", "int4", "--json"]
    command += [] if check_memory is None else ["--check-memory", str(check_memory)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    report = json.loads(done.stdout)
    parameters = json.loads((out / "manifest.json").read_text())["target"]["parameters"]
    print(json.dumps(report["parity"]["target"]), *report["limits"], sep="\n", file=sys.stderr, flush=True)
    shutil.rmtree(checkpoint)
    shutil.rmtree(out)
    return Row(name, parameters, size, report["peak_bytes"], report["seconds"], len(report["limits"]))


def show(row: Row) -> None:
    cells = (
        row.name,
        f"{row.parameters / 1e6:.0f} M",
        *(f"{number / GB:.2f} GB" for number in (row.checkpoint, row.peak, row.allowed)),
        f"{row.peak / row.checkpoint:.2f}",
        f"{row.seconds:.0f} s",
        "part" if row.limits else "all",
    )
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="a directory with Qwen2's tokenizer.json"
    )
    parser.add_argument("--check-memory", type=float, help="GB of float32 weights that the checks may hold")
    options = parser.parse_args()
    print("| model | parameters | bf16 | peak | allowed | peak / bf16 | time | float32 layers compared |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.sizes:
        with tempfile.TemporaryDirectory() as place:
            show(measure(name, options.tokenizer.resolve(), Path(place), options.check_memory))


if __name__ == "__main__":
    main()
