"""Reads what WriteSession of the Kotlin library wrote, and compares what follows.

`check_session.py BUNDLE FOLDER`, with the bundle that WriteSession was given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from omnidraft import Session, load_bundle
from omnidraft.runtime.models.adapter_file import encode_adapter, read_adapter
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import read_table


def main(bundle: Path, folder: Path) -> None:
    due = json.loads((folder / "due.json").read_text(encoding="utf-8"))
    session = Session(load_bundle(bundle, measure="never"))
    session.load(folder / "talk.session")
    assert session.answer is not None
    assert len(session.answer.token_ids) == due["before"]
    assert encode(session.cache.table()) == (folder / "cache.odc").read_bytes()
    assert session.resume().finish().token_ids == due["resumed"]
    after = session.chat(due["message"], max_new_tokens=32, num_draft_tokens=4).finish()
    assert after.token_ids == due["after"]
    table = read_table(folder / "cache.odc", session.vocab_map)
    assert encode(table) == (folder / "cache.odc").read_bytes()
    adapter = folder / "adapter.safetensors"
    if adapter.exists():
        assert encode_adapter(read_adapter(adapter)) == adapter.read_bytes()
    print(f"{folder}: {len(due['resumed'])} and {len(due['after'])} ids, {len(table)} n-grams")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
