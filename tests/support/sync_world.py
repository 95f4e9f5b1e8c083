"""A tiny pair of models without graphs, a store, and the actions of devices and of the training side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fsspec.implementations.dirfs import DirFileSystem

from omnidraft.errors import OmnidraftError, SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import KvShape, ModelEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.adapter_file import encode_adapter, write_adapter
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_store import write_table
from omnidraft.runtime.vocab.cache_table import CacheTable
from omnidraft.signing import raw_public
from omnidraft.sync.channel import utc
from omnidraft.sync.device_pushes import ChannelPair, sent_by_devices
from omnidraft.sync.installed import adapter_in_use
from omnidraft.sync.publish import Publisher, publish
from omnidraft.sync.published import PublisherMemory
from omnidraft.sync.pull import Device, Pulled, pull
from omnidraft.sync.push import Pushed, PushItem, adapter_item, cache_item, push, push_of, trace_items
from omnidraft.sync.record_lines import LARGEST
from omnidraft.sync.release import Release
from omnidraft.sync.release_contents import Contents, mean_of, merged
from omnidraft.sync.store import Store, open_store
from support.adapters import BASE, OPEN, adapter
from support.tables import GRAM_IDS, TOY, table

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
PUBLIC = raw_public(KEY)


def entry(role: str, fingerprint: str | None) -> ModelEntry:
    lora = OPEN if role == "drafter" else None
    return ModelEntry(
        role, "None", f"{role}.onnx", role, KvShape(1, 1, 16, 32), 10, "fp32", None, (1,), 1,
        fingerprint=fingerprint, lora=lora,
    )  # fmt: skip


def pair_of(base: str | None = BASE, target: str | None = "b" * 64) -> ChannelPair:
    """The vocabularies of the toy languages, with a drafter that takes adapters at two sites."""
    models = entry("target", target), entry("drafter", base)
    return ChannelPair(
        Bundle(Path("tiny"), *models, PromptTemplate("", ""), Costs((1.0,), 0.1, 0.0), "map", {}), TOY
    )


PAIR = pair_of()
CHANNEL = PAIR.channel


def cache_of(number: int) -> CacheTable:
    """The n-grams of a device, different for each number."""
    return table(counts=[(number + 2, number + 1)] * len(GRAM_IDS))


def items_of(place: Path, number: int) -> list[PushItem]:
    """The items of a device, from files, different for each number."""
    place.mkdir(exist_ok=True)
    file, cache = place / f"{number}.safetensors", place / f"{number}.odc"
    if not cache.exists():
        write_adapter(file, adapter(2, number))
        write_table(cache, cache_of(number))
    return [adapter_item(file, PAIR.bundle, TOY), cache_item(cache, TOY)]


def made_items(number: int) -> list[PushItem]:
    """The same without files, so that pushing takes all of the time."""
    data = {"adapter": encode_adapter(adapter(2, number)), "cache": encode(cache_of(number))}
    return [PushItem(kind, Path(kind), content, "") for kind, content in data.items()]


def push_number(
    store: Store, place: Path, number: int, device: str = "phone", traces: Path | None = None
) -> Pushed:
    """Push the items of a number, which is also the number of accepted tokens."""
    items = items_of(place, number) + ([] if traces is None else trace_items(traces, TOY))
    return push(store, push_of(items, device, PAIR.channel, number, utc()), items)


def publish_number(store: Store, number: int, memory: Path | None = None, **others: Any) -> Release:
    """Publish the adapter and the cache of `number` under the next release number."""
    settings: dict[str, Any] = {"key": KEY, "days": 1.0, "now": None, "channel": PAIR.channel} | others
    remembered = None if memory is None else PublisherMemory(memory)
    publisher = Publisher(
        settings["key"], remembered, settings.get("restore", False), settings.get("after", 0)
    )
    grams = GRAM_IDS[: 1 + number % 4]
    cache = table(grams, [(number + 1, 0)] * len(grams))
    contents = Contents(adapter(2, number), cache, number, 1, settings["days"])
    return publish(store, settings["channel"], contents, publisher, settings["now"])


def publish_sent(store: Store, rank: int | None = None, cap: int = LARGEST) -> Release:
    """Publish the mean of the devices' adapters."""
    sent = sent_by_devices(store, PAIR)
    mean = mean_of(sent, rank, cap)
    assert mean is not None
    cache = merged([each.cache for each in sent if each.cache is not None])
    return publish(
        store,
        PAIR.channel,
        Contents(mean.averaged.adapter, cache, mean.accepted, len(sent), 1.0),
        Publisher(KEY),
    )


def pull_into(store: Store, into: Path, now: str | None = None, **others: Any) -> Pulled:
    """Pull as a device with the publisher's key."""
    return pull(store, Device(PAIR.bundle, TOY, into, **({"public_key": PUBLIC} | others)), None, now)


def folder_store(place: Path) -> Store:
    return open_store(str(place))


class BreakingFileSystem(DirFileSystem):  # type: ignore[misc] # fsspec has no types
    """A folder whose connection breaks at its n-th operation; a write breaks in the middle."""

    def __init__(self, path: Path, breaks_at: int) -> None:
        super().__init__(path=str(path), skip_instance_cache=True)
        self.left = breaks_at

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("the connection is gone")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        try:
            self._count()
        except ConnectionError:
            super().pipe_file(path, value[: len(value) // 2], **options)
            raise
        super().pipe_file(path, value, **options)

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:
        self._count()
        return super().open(path, *arguments, **options)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        self._count()
        super().mv(path1, path2, **options)

    def ls(self, path: str, **options: Any) -> Any:
        self._count()
        return super().ls(path, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._count()
        return super().info(path, **options)

    def rm_file(self, path: str) -> None:
        self._count()
        super().rm_file(path)


def breaking_store(place: Path, breaks_at: int) -> Store:
    """A store that is neither a folder nor a bucket, so it writes a temporary name and moves it."""
    place.mkdir(parents=True, exist_ok=True)
    return Store(BreakingFileSystem(place, breaks_at), "", "breaking")


def fault(call: Callable[[], object], *words: str) -> str:
    """The fault of the error that a call raises; the error is one sentence with these words."""
    with pytest.raises(OmnidraftError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 500
    for word in words:
        assert word in sentence, (word, sentence)
    return str(getattr(caught.value, "fault", ""))


def failure(call: Callable[..., object], *arguments: object) -> SyncError | None:
    """The error that a call raises; None where it succeeds."""
    try:
        call(*arguments)
    except SyncError as error:
        return error
    return None


def in_use(into: Path) -> bytes:
    """The file of the adapter that a device has in use."""
    file = adapter_in_use(into)
    assert file is not None
    return file.read_bytes()


def everything(place: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}
