"""Reads what WriteLearned of the Kotlin library wrote: the adapter, the trace, and the push.

`check_learned.py BUNDLE FOLDER`, with the bundle that WriteLearned was given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omnidraft import Session, load_bundle
from omnidraft.learning.learn_traces import LearnOptions, responses_of
from omnidraft.runtime.models.adapter_file import encode_adapter, read_adapter
from omnidraft.sync.device_pushes import ChannelPair, sent_by_devices
from omnidraft.sync.store import open_store

QUESTION = "Ben has 5 bags with 4 shells each. He finds 6 more shells. How many shells does he have?"


def main(bundle: Path, folder: Path) -> None:
    loaded = load_bundle(bundle, measure="never")
    file = folder / "learned.safetensors"
    adapter = read_adapter(file)
    assert encode_adapter(adapter) == file.read_bytes()
    said = [
        Session(loaded, adapter=each).generate(QUESTION, max_new_tokens=24, num_draft_tokens=4).finish()
        for each in (None, adapter)
    ]
    assert said[0].token_ids == said[1].token_ids
    assert responses_of([folder / "traces"], loaded.bundle, loaded.vocab_map, LearnOptions())
    [sent] = sent_by_devices(open_store(str(folder / "store")), ChannelPair(loaded.bundle, loaded.vocab_map))
    assert sent.refusal is None, sent.refusal
    assert sent.push is not None and sent.adapter is not None
    assert sent.adapter.digest == adapter.digest
    rounds = [each.statistics.rounds for each in said]
    print(f"{folder}: {rounds[0]} passes without the adapter, {rounds[1]} with it")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
