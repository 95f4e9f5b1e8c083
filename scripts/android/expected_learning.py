"""Writes what the Python runtime learns and publishes, for LearnerTest and SyncTest of the Kotlin library.

`expected_learning.py BUNDLES` writes BUNDLES/expected/learning with the bundle `learning`:

- `traces`: recorded answers;
- `NAME/begin.safetensors`, `end.safetensors`, `adapter.safetensors`, `losses.json`: a learner's state before
  and after some steps on all these answers, the adapter after them, and the loss of each;
- `store`: a store with a signed release of an adapter and a cache; `key` is the public key, 32 bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from omnidraft import TextSession, load_bundle
from omnidraft.learning.learn_traces import CHECKPOINT, LearnOptions, learn, responses_of
from omnidraft.learning.positions.alignment import Aligned
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.bundle.signature import read_public_key
from omnidraft.runtime.models.adapter_file import encode_adapter
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_store import TraceStore
from omnidraft.sample_prompts import word_problems

ANSWERS, TOKENS = 16, 40
STEPS = 3  # between the two states
RELEASED = 48  # steps of the published adapter
CREATED = "2026-01-02T03:04:05Z"
LEARNERS = {
    "at_once": StepOptions(learning_rate=4e-3),
    "in_parts": StepOptions(learning_rate=1e-3, at_once=3),
}


def main(bundles: Path) -> None:
    place = bundles / "expected/learning"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    loaded = load_bundle(bundles / "learning", measure="never")
    trace = TraceStore(place / "traces", Vocabularies.of(loaded.vocab_map))
    session = TextSession(loaded, trace=trace)
    for prompt in word_problems(ANSWERS):
        list(session.generate(prompt, max_new_tokens=TOKENS, num_draft_tokens=4))
    session.save_cache(place / "cache.odc")
    trace.close()
    responses = responses_of([place / "traces"], loaded.bundle, loaded.vocab_map, LearnOptions())
    for name, options in LEARNERS.items():
        (place / name).mkdir()
        write_steps(loaded, place / name, options, responses)
    publish(bundles / "learning", place, loaded, responses)


def write_steps(loaded: LanguageModel, place: Path, options: StepOptions, responses: list[Aligned]) -> None:
    """Write a state, and what some steps make of it."""
    learner = OrtLearner(loaded.bundle, loaded.vocab_map, options, now=lambda: CREATED)
    learner.learn(responses[:5])
    CHECKPOINT.write(place / "begin.safetensors", learner.state(), {"rate": options.learning_rate})
    steps = [learner.learn(responses) for _ in range(STEPS)]
    CHECKPOINT.write(place / "end.safetensors", learner.state(), {"rate": options.learning_rate})
    (place / "adapter.safetensors").write_bytes(encode_adapter(learner.adapter()))
    losses = [{"loss": step.loss, "norm": step.norm} for step in steps]
    (place / "losses.json").write_text(json.dumps(losses), encoding="utf-8")


def publish(bundle: Path, place: Path, loaded: LanguageModel, responses: list[Aligned]) -> None:
    """Put a signed release into a store, as a training side does."""
    options = LearnOptions(StepOptions(learning_rate=2e-3), steps=RELEASED)
    learner = OrtLearner(loaded.bundle, loaded.vocab_map, options.step, now=lambda: CREATED)
    (place / "released.safetensors").write_bytes(encode_adapter(learn(learner, responses, options).adapter))
    store, cache = place / "store", place / "cache.odc"
    command("keygen", "-o", place / "team")
    os.environ["OMNIDRAFT_STATE"] = str(place / "state")
    pushed = command("sync", "push", bundle, store, "--cache", cache, "--yes", "--json")
    (place / "devices").write_text(json.loads(pushed)["key"], encoding="ascii")
    files = {"key": "team.private.pem", "devices": "devices", "adapter": "released.safetensors"}
    given = [part for name, file in files.items() for part in (f"--{name}", place / file)]
    command("sync", "publish", bundle, store, "--traces", place / "traces", *given)
    (place / "key").write_bytes(read_public_key(place / "team.public.pem"))


def command(*arguments: str | Path) -> str:
    """What a command of omnidraft prints."""
    program = Path(sys.executable).with_name("omnidraft")
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
