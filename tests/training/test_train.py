"""`omnidraft train`: recorded generations become an adapter or a checkpoint; kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("fsspec")

from safetensors.numpy import load_file  # noqa: E402

from omnidraft import load  # noqa: E402
from omnidraft.runtime.models.adapter_file import read_adapter  # noqa: E402
from support.command_line import Run, config  # noqa: E402
from support.places import ROOT, STARTERS  # noqa: E402

QUESTIONS = [f"Tom has {n} pens and loses 2. How many pens are left?" for n in range(3, 13)]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def traces(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of two devices, five answers each."""
    place = tmp_path_factory.mktemp("traces")
    for i, name in enumerate(("phone", "laptop")):
        session = load(bundle, trace=place / name)
        for question in QUESTIONS[i::2]:
            session.generate(question, max_new_tokens=24, temperature=0.7, seed=1).finish()
        assert session.trace is not None
        session.trace.close()
    return place


def arguments(bundle: Path, traces: str | Path, out: Path, *more: object, **settings: object) -> list[str]:
    """A short training: three steps of three responses each, and one of one."""
    few = config(**{"batch_size": 3, "learning_rate": 1e-3} | settings)
    options = ("train", bundle, "--drafter", STARTERS / "drafter", "--traces", traces, "--out", out)
    return [*map(str, (*options, *few, *more))]


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *command], env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)


def tensors(file: Path) -> dict[str, Any]:
    return load_file(file)


def test_an_adapter_is_learned(bundle: Path, traces: Path, tmp_path: Path, run: Run) -> None:
    """The loss falls, the adapter fits the bundle, and a session uses it."""
    out, log = tmp_path / "a.safetensors", tmp_path / "log.jsonl"
    settings = {"epochs": 6, "lora_rank": 8, "log": log}
    code, text, error = run(*arguments(bundle, traces, out, "--json", **settings))
    assert code == 0, error
    summary = json.loads(text)
    assert (summary["responses"], summary["segments"], summary["steps"], summary["done"]) == (10, 2, 24, 24)
    assert summary["left_out"] == {} and summary["skipped"] == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    losses = [line["loss"] for line in lines]  # four steps are an epoch, of the same responses
    assert np.mean(losses[-4:]) < 0.97 * np.mean(losses[:4])
    assert summary["mean_loss"] == pytest.approx(np.mean(losses), rel=1e-5) and summary["last_loss"] is None
    assert [line["step"] for line in lines] == list(range(1, 25))
    assert read_adapter(out).rank == 3 * 8  # q, k and v are one product of the graph
    session = load(bundle)
    plain = session.generate(QUESTIONS[0], max_new_tokens=16).finish().token_ids
    session.use_adapter(out)
    assert session.generate(QUESTIONS[0], max_new_tokens=16).finish().token_ids == plain


def test_every_weight_is_learned_into_a_checkpoint(
    bundle: Path, traces: Path, tmp_path: Path, run: Run
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "drafter"
    code, text, error = run(*arguments(bundle, traces, out, "--full"))
    assert code == 0, error
    assert f"{out}: 4 steps on 10 responses of 2 segments" in text
    learned, before = (AutoModelForCausalLM.from_pretrained(d) for d in (out, STARTERS / "drafter"))
    learned.requires_grad_(False), before.requires_grad_(False)
    moved = [
        float((a - b).abs().max()) for a, b in zip(learned.parameters(), before.parameters(), strict=True)
    ]
    assert min(moved) > 0.0
    old, new = (AutoTokenizer.from_pretrained(d) for d in (STARTERS / "drafter", out))
    assert new.encode("Mia has 12 pens.") == old.encode("Mia has 12 pens.")
    assert sorted(p.name for p in out.iterdir()) == [
        "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    code, _, error = run(*arguments(bundle, traces, out, "--full"))
    assert code == 1 and "exists already" in error


KILLED = """
import os, signal, sys
from omnidraft import cli
from omnidraft.training.trainer import Trainer
step = Trainer.step
def killed(self, responses):
    if self.steps == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, responses)
Trainer.step = killed
sys.argv[0] = "omnidraft"
cli.main()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills by POSIX signals")
def test_killed_and_resumed_equals_unbroken(bundle: Path, traces: Path, tmp_path: Path, run: Run) -> None:
    """kill -9 in the sixth of twelve steps: tensors and log equal those of an unbroken run bit by bit."""
    more: dict[str, object] = {"epochs": 3, "lora_rank": 4, "checkpoint_every": 2}

    def command(name: str, **other: object) -> list[str]:
        place = tmp_path / name
        files = {"checkpoint": place.with_suffix(".state"), "log": place.with_suffix(".jsonl")}
        return arguments(bundle, traces, place.with_suffix(".safetensors"), **more | files | other)

    # In processes of their own: earlier tests set the number of torch's threads here, on which the last bit
    # of a sum depends.
    whole = start(["-m", "omnidraft", *command("whole")])
    output = whole.communicate()
    assert whole.returncode == 0, output
    killed, log = start(["-c", KILLED, *command("broken")]), tmp_path / "broken.jsonl"
    output = killed.communicate()
    assert killed.returncode == -signal.SIGKILL, output
    assert len(log.read_text().splitlines()) == 5
    assert not (tmp_path / "broken.safetensors").exists()
    resumed = start(["-m", "omnidraft", *command("broken"), "--json"])
    text, error = resumed.communicate()
    assert resumed.returncode == 0, error
    summary = json.loads(text)
    assert (summary["steps"], summary["done"]) == (12, 8)  # the checkpoint is of the fourth step
    assert log.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    for suffix in (".state", ".safetensors"):
        expected, actual = (tensors(tmp_path / f"{name}{suffix}") for name in ("whole", "broken"))
        assert expected.keys() == actual.keys()
        assert all(np.array_equal(expected[key], actual[key]) for key in expected)
    again = json.loads(run(*command("broken"), "--json")[1])
    assert again["done"] == 0 and again["mean_loss"] is None  # no step is left
    code, _, error = run(*command("broken", seed=3))
    assert code == 1 and "was made with seed 0 and not 3" in error
    (traces / "phone" / "trace-0000000099.odt").write_bytes(b"more")
    code, _, error = run(*command("broken"))
    (traces / "phone" / "trace-0000000099.odt").unlink()
    assert code == 1 and "was made with traces '" in error


@pytest.mark.parametrize(
    ("more", "settings", "message"),
    [
        ((), {"objective": "kl"}, '"kl" is unknown here'),
        ((), {"learning_rate": -1}, "learning_rate -1.0 is not a number of at least 0.0; 0.0001 is usual"),
        ((), {"max_length": 1}, "max_length 1 leaves no room; give 2 or more"),
        ((), {"schedule": "later"}, 'schedule "later" is unknown'),
        ((), {"epochs": 0}, "epochs 0 is not a number of at least 1"),
        ((), {"epoch": 1}, "settings.toml: epoch = 1 is no setting of this command"),
        (("--drafter", STARTERS / "a"), {}, "has another tokenizer than the drafter of"),
        ((), {"max_length": 100000}, "100000 is outside 1 to"),
        (("--traces", "/nowhere"), {}, "/nowhere holds no trace"),
        ((), {"checkpoint": "/nowhere/state"}, "cannot be written to /nowhere/state because"),
        ((), {"log": "/"}, "/ cannot be written because it is a directory"),
        ((), {"lora_rank": 5000}, "LoRA rank 5000 is outside"),
        (("--out", "mine.bin"), {}, "mine.bin is not the name of an adapter; give one like mine.safetensors"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    bundle: Path,
    traces: Path,
    tmp_path: Path,
    run: Run,
    more: tuple[object, ...],
    settings: dict[str, object],
    message: str,
) -> None:
    code, out, error = run(*arguments(bundle, traces, tmp_path / "a.safetensors", *more, **settings))
    assert code == 1 and message in error and len(error.splitlines()) == 1 and not out
    assert list(tmp_path.iterdir()) == []
