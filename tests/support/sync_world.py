"""A tiny pair of models without graphs, a store, and the actions of devices and of the training side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from omnidraft.errors import OmnidraftError, SyncError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import KvShape, ModelEntry
from omnidraft.runtime.chat.prompt_template import PromptTemplate
from omnidraft.runtime.decoding.length_state import Costs
from omnidraft.runtime.models.adapter_file import encode_adapter
from omnidraft.runtime.vocab.cache_file import encode
from omnidraft.runtime.vocab.cache_table import CacheTable
from omnidraft.signing import raw_public
from omnidraft.sync.channel import Channel, ChannelPair, push_name, release_name
from omnidraft.sync.installed import adapter_in_use
from omnidraft.sync.publish import Sent, publish, remembered, sent_by
from omnidraft.sync.pull import Device, Pulled, pull
from omnidraft.sync.record import Contents, Signed, write_signed
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


def device(number: int) -> Ed25519PrivateKey:
    """The key of a device, different for each number."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def name_of(number: int) -> str:
    return raw_public(device(number)).hex()


def listed(*numbers: int) -> dict[str, str]:
    """The devices of some numbers as a publisher lists them."""
    return {name_of(number): f"phone-{number}" for number in numbers}


def push_of(number: int, scale: float = 1.0, accepted: int | None = None, rank: int = 2) -> bytes:
    """The push of a device: the adapter of its number, multiplied by a factor, and its n-grams."""
    plain = adapter(rank, number)
    tensors = {site: (a, (b * scale).astype(np.float32)) for site, (a, b) in plain.tensors.items()}
    files = encode_adapter(replace(plain, tensors=tensors)), encode(cache_of(number))
    count = number if accepted is None else accepted
    return write_signed("push", CHANNEL, Contents(*files, (), count), device(number))


def push(store: Store, number: int, scale: float = 1.0, accepted: int | None = None, rank: int = 2) -> None:
    """Push what `push_of` makes."""
    store.write(push_name(CHANNEL, name_of(number)), push_of(number, scale, accepted, rank), private=True)


def publish_number(
    store: Store, number: int, memory: Path, key: Ed25519PrivateKey = KEY, channel: Channel = CHANNEL
) -> Signed:
    """Publish the adapter and the cache of `number` as the next release."""
    grams = GRAM_IDS[: 1 + number % 4]
    contents = adapter(2, number), table(grams, [(number + 1, 0)] * len(grams)), number
    before = remembered(memory, PAIR, raw_public(key)) if channel == CHANNEL else None
    return publish(store, channel, contents, key, memory, before)


def sent(store: Store, *numbers: int) -> list[Sent]:
    """What the devices of some numbers pushed, for a publisher that lists them."""
    return sent_by(store, PAIR, listed(*numbers))


def pull_into(store: Store, into: Path, now: str | None = None, **others: Any) -> Pulled:
    """Pull as a device with the publisher's key."""
    return pull(store.read(release_name(CHANNEL), "release", PUBLIC), Device(PAIR, into, **others), now)


def folder_store(place: Path) -> Store:
    return open_store(str(place))


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
