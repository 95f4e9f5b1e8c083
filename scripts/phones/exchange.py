"""Files that cross languages: what each of Python, Kotlin and Swift writes, each of them reads.

exchange.py write BUNDLE EXPECTED FOLDER   # writes what a device writes, and a release, as Python does
exchange.py read BUNDLE FOLDER REPORT      # reads what a language wrote into a folder, as Python does
exchange.py compare BUNDLE PLACE RESULT    # compares all reports; PLACE has a folder for each language

EXPECTED is what scripts/android/expected_learning.py wrote. A folder has `talk.session`, saved in the middle
of an answer; `cache.odc`, its n-grams; `learned.safetensors`, an adapter; `traces`; `store` with a push;
Python's also has `release`, a store with a signed release and the public key. A report,
PLACE/READER-reads-WRITER.json, holds what READER makes of them. It must be what WRITER makes of its own
files.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from omnidraft import TextSession, load_bundle
from omnidraft.learning.learn_traces import LearnOptions, learn, responses_of
from omnidraft.learning.step.ort_learner import OrtLearner, StepOptions
from omnidraft.runtime.models.adapter_file import encode_adapter, read_adapter
from omnidraft.runtime.session.language_model import LanguageModel
from omnidraft.runtime.traces.trace import Vocabularies
from omnidraft.runtime.traces.trace_file import encode as encode_segment
from omnidraft.runtime.traces.trace_reader import read_segments
from omnidraft.runtime.traces.trace_store import TraceStore
from omnidraft.runtime.vocab.cache_file import encode as encode_cache
from omnidraft.runtime.vocab.cache_store import read_table
from omnidraft.sample_prompts import word_problems
from omnidraft.signing import raw_public
from omnidraft.sync.channel import ChannelPair, push_name, release_name
from omnidraft.sync.pull import Device, contents_of, pull
from omnidraft.sync.push import adapter_item, cache_item, trace_items, write_push
from omnidraft.sync.record import read_signed
from omnidraft.sync.store import open_store

LANGUAGES = ("python", "kotlin", "swift")
MESSAGES = ("How many legs do 3 cats have?", "And how many legs do 4 more cats have?", "Add one dog.")
TOKENS = 32
GREEDY: dict[str, Any] = {"max_new_tokens": TOKENS, "num_draft_tokens": 4}
SAMPLED: dict[str, Any] = {**GREEDY, "temperature": 1.0, "seed": 77}
STEPS = 4


def write(bundle: Path, expected: Path, folder: Path) -> None:
    """Write all files of a device, and copy the release that Python published."""
    loaded = load_bundle(bundle, measure="never")
    session = TextSession(loaded)
    session.chat(MESSAGES[0], **GREEDY).finish()
    answer = session.chat(MESSAGES[1], **SAMPLED)
    for _ in range(3):
        next(iter(answer))
    session.save(folder / "talk.session")
    session.cache.prefill()
    session.save_cache(folder / "cache.odc")
    trace = TraceStore(folder / "traces", Vocabularies.of(loaded.vocab_map))
    recorded = TextSession(loaded, trace=trace)
    for prompt in word_problems(8):
        recorded.generate(prompt, **GREEDY).finish()
    trace.close()
    responses = responses_of([folder / "traces"], loaded.bundle, loaded.vocab_map, LearnOptions())
    options = LearnOptions(StepOptions(learning_rate=2e-3), steps=STEPS)
    learner = OrtLearner(loaded.bundle, loaded.vocab_map, options.step)
    (folder / "learned.safetensors").write_bytes(encode_adapter(learn(learner, responses, options).adapter))
    pair = ChannelPair(loaded.bundle, loaded.vocab_map)
    items = [
        adapter_item(folder / "learned.safetensors", pair),
        cache_item(folder / "cache.odc", pair.vocab_map),
        *trace_items(folder / "traces", pair.vocab_map),
    ]
    key = Ed25519PrivateKey.generate()
    data = write_push(items, pair, 1, key)
    open_store(str(folder / "store")).write(push_name(pair.channel, raw_public(key).hex()), data)
    shutil.copytree(expected / "store", folder / "release")
    shutil.copy(expected / "key", folder / "release/key")


def read(bundle: Path, folder: Path, report: Path) -> None:
    """Report what Python makes of a folder."""
    loaded = load_bundle(bundle, measure="never")
    found = {
        "session": read_session(loaded, folder / "talk.session"),
        "cache": read_cache(loaded, folder / "cache.odc"),
        "adapter": read_learned(loaded, folder / "learned.safetensors"),
        "trace": read_trace(loaded, folder / "traces"),
    }
    if (folder / "release").exists():
        found["release"] = read_release(loaded, folder / "release", report.with_suffix(".pulled"))
    report.write_text(json.dumps(found), encoding="utf-8")


def read_session(loaded: LanguageModel, file: Path) -> dict[str, Any]:
    """The answer that was begun, how it goes on, and the next one."""
    session = TextSession(loaded)
    session.load(file)
    assert session.answer is not None
    begun = list(session.answer.token_ids)
    resumed = session.resume().finish().token_ids
    return {
        "begun": begun,
        "resumed": resumed,
        "after": session.chat(MESSAGES[2], **GREEDY).finish().token_ids,
    }


def read_cache(loaded: LanguageModel, file: Path) -> dict[str, Any]:
    """The number of n-grams, and the digest of the file that they make again."""
    table = read_table(file, loaded.vocab_map)
    return {"ngrams": len(table), "again": digest(encode_cache(table))}


def read_learned(loaded: LanguageModel, file: Path) -> dict[str, Any]:
    """The digest of the adapter, that of the file that it makes again, and an answer with it."""
    adapter = read_adapter(file)
    answer = TextSession(loaded, adapter=adapter).generate(MESSAGES[0], **SAMPLED).finish()
    again = digest(encode_adapter(adapter))
    counts = [answer.statistics.rounds, answer.statistics.accepted_drafts]
    return {"digest": adapter.digest, "again": again, "ids": answer.token_ids, "counts": counts}


def read_trace(loaded: LanguageModel, place: Path) -> dict[str, Any]:
    """What the trace holds, and the digests of the segments that it makes again."""
    segments = [segment for _, segment in read_segments(place, Vocabularies.of(loaded.vocab_map))]
    generations = [each for segment in segments for each in segment.generations()]
    return {
        "generations": len(generations),
        "rounds": sum(len(each.rounds) for each in generations),
        "responses": len(responses_of([place], loaded.bundle, loaded.vocab_map, LearnOptions())),
        "again": [digest(encode_segment(segment)) for segment in segments],
    }


def read_release(loaded: LanguageModel, store: Path, into: Path) -> dict[str, Any]:
    """The adapter that is in use after a pull, and the number of n-grams."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    key = (store / "key").read_bytes()
    cache = into / "cache.odc"
    TextSession(loaded).save_cache(cache)
    pair = ChannelPair(loaded.bundle, loaded.vocab_map)
    release = open_store(str(store)).read(release_name(pair.channel), "release", key)
    pulled = pull(release, Device(pair, into / "releases", cache=cache))
    assert pulled.adapter is not None
    ngrams = len(read_table(cache, loaded.vocab_map))
    return {"adapter": read_adapter(pulled.adapter).digest, "ngrams": ngrams}


def compare(bundle: Path, place: Path, result: Path) -> None:
    """Compare all reports, read all pushes, and write which kinds of file crossed from whom to whom."""
    loaded = load_bundle(bundle, measure="never")
    crossed: dict[str, list[str]] = {}
    for writer in [each for each in LANGUAGES if (place / each).is_dir()]:
        own = report_of(place, writer, writer)
        check_own(place / writer, own)
        for reader in [each for each in LANGUAGES if (place / each).is_dir() and each != writer]:
            theirs = report_of(place, reader, writer)
            assert theirs.keys() == own.keys(), (writer, reader, *theirs)
            for kind in own:
                assert theirs[kind] == own[kind], f"{kind} by {writer}, read by {reader}: {theirs[kind]}"
                crossed.setdefault(kind, []).append(f"{writer} to {reader}")
        if writer != "python":
            read_push(loaded, place / writer, own)
            crossed.setdefault("push", []).append(f"{writer} to python")
    for kind, ways in crossed.items():
        print(f"{kind:8} {', '.join(ways)}")
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(crossed, indent=1) + "\n", encoding="utf-8")


def report_of(place: Path, reader: str, writer: str) -> dict[str, Any]:
    """A report of a reader."""
    content: dict[str, Any] = json.loads((place / f"{reader}-reads-{writer}.json").read_bytes())
    return content


def check_own(folder: Path, own: dict[str, Any]) -> None:
    """Fail unless the files hold something, and writing them again gives the same bytes."""
    session, trace = own["session"], own["trace"]
    assert 0 < len(session["begun"]) < len(session["resumed"])
    assert session["resumed"][: len(session["begun"])] == session["begun"] and session["after"]
    assert own["cache"]["ngrams"] > 0 and trace["responses"] > 0 and trace["rounds"] > trace["generations"]
    assert own["cache"]["again"] == digest((folder / "cache.odc").read_bytes())
    assert own["adapter"]["again"] == digest((folder / "learned.safetensors").read_bytes())
    assert trace["again"] == digests(sorted((folder / "traces").glob("*.odt")))


def read_push(loaded: LanguageModel, folder: Path, own: dict[str, Any]) -> None:
    """Fail unless the training side takes the push of a phone, with the adapter, the cache and the traces."""
    pair = ChannelPair(loaded.bundle, loaded.vocab_map)
    [file] = (folder / "store" / pair.channel.id).glob("*.push")
    signed = read_signed(file.read_bytes(), "push", bytes.fromhex(file.stem))
    adapter, cache = contents_of(signed, pair)
    assert adapter is not None and cache is not None
    assert adapter.digest == own["adapter"]["digest"]
    assert {digest(each) for each in signed.traces} == set(own["trace"]["again"])


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


def digests(files: Iterable[Path]) -> list[str]:
    """SHA-256 of files."""
    return [digest(file.read_bytes()) for file in files]


if __name__ == "__main__":
    {"write": write, "read": read, "compare": compare}[sys.argv[1]](*map(Path, sys.argv[2:]))
