"""How weights are stored, as a value with a name such as fp32, int8 or int4-b128-e4-h8-gptq."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnidraft.errors import SettingError

METHODS = ("round", "rtn", "k-quant", "hqq", "gptq")  # of 4-bit weights; see grids.py and gptq.py
BLOCKS = (32, 128)
EMBEDDING_BITS = (32, 8, 4)
WEIGHTS = {"fp32": 32, "int8": 8, "int4": 4}
HEADS = ("same", "int8")
_LONGER = (
    ", or a longer name: -b128, -e8 of the embedding, -h8 of the LM head and the method follow in this "
    "order, as in int4-b128-e8-h8-gptq"
)
STORED = "stored"  # the name of weights that are taken as a GGUF file has them


@dataclass(frozen=True)
class Quantization:
    """How weights are stored.

    Attributes:
        bits: 32 (float), 8 or 4.
        block: number of rows that share a scale. A product whose number of rows `block` does not divide has
            blocks of 32, the last one padded with zeros.
        embedding_bits: 32, 8 or 4, of the embedding table, in blocks of 32 values of a token. The table has
            most of the bytes of a small drafter, but one row is read for each token, so this setting
            affects size, not speed.
        head_bits: 8 if the LM head keeps 8 bits while the rest has 4; None for the same as the rest, or as
            the embedding where the head is tied to it (see `one_table`).
        method: how 4-bit weights are found, one of `METHODS`; 8-bit weights are always rounded.
        stored: take the codes of a GGUF file as they are (see `stored.py`), and leave floats in float32.
        int8_sites: products that keep 8 bits where the rest has 4, such as `layers.3.down`. They were chosen
            by measurement for one model (`--quant auto`), so a name tells only their number.

    Raises:
        SettingError: the form is not supported.
    """

    bits: int
    block: int = 32
    embedding_bits: int = 32
    head_bits: int | None = None
    method: str = "round"
    stored: bool = False
    int8_sites: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.int8_sites and self.bits != 4:
            raise SettingError(
                f"{len(self.int8_sites)} products of 8 bits in {self.bits}-bit weights are not supported",
                "keep them where the rest is int4",
            )
        for bits in (self.bits, self.embedding_bits):
            if bits not in (32, 8, 4):
                raise SettingError(f"weights of {bits} bits are not supported", "use 32, 8 or 4")
        if self.block not in BLOCKS:
            raise SettingError(f"blocks of {self.block} are not supported", "use 32 or 128")
        if self.method not in METHODS:
            raise SettingError(
                f'quantisation method "{self.method}" is not supported', f"use {', '.join(METHODS)}"
            )
        if self.head_bits not in (None, 8) or (self.head_bits and self.bits != 4):
            raise SettingError(
                f"an LM head of {self.head_bits} bits in {self.bits}-bit weights is not supported",
                "keep it at int8 where the rest is int4",
            )
        if self.method != "round" and self.bits != 4:
            raise SettingError(
                f"quantisation method {self.method} is for 4-bit weights, not {self.bits}-bit ones",
                "use int4",
            )
        assert not self.stored or self.bits == self.embedding_bits == 32, "stored weights are not rounded"

    @property
    def name(self) -> str:
        """The short name, which `named` reads unless there are `int8_sites`."""
        if self.stored:
            return STORED
        weights = "fp32" if self.bits == 32 else f"int{self.bits}"
        parts = {
            f"-b{self.block}": self.bits < 32 and self.block != 32,
            f"-e{self.embedding_bits}": self.embedding_bits < 32,
            f"-h{self.head_bits}": self.head_bits is not None,
            f"-{self.method}": self.method != "round",
            f"-m{len(self.int8_sites)}": bool(self.int8_sites),
        }
        return weights + "".join(part for part, shown in parts.items() if shown)

    @property
    def one_table(self) -> bool:
        """Whether a tied LM head and the embedding have the same codes, which are then stored once.

        The head has at least the bits of the rest. 4-bit codes are found by the method in the head and
        rounded in the embedding.
        """
        table = self.embedding_bits
        same = self.bits <= table < 32 and self.head_bits in (None, table)
        return same and (table == 8 or self.method == "round")

    def bits_of(self, product: str) -> int:
        """The bits of a product by its name; a tied LM head may have the embedding's (see `one_table`)."""
        if product in self.int8_sites:
            return 8
        return self.head_bits or self.bits if product == "lm_head" else self.bits

    def block_for(self, rows: int) -> int:
        """The block size of a weight of `rows` rows."""
        return self.block if rows % self.block == 0 else 32


def named(text: str) -> Quantization:
    """The quantisation whose `name` is `text`.

    Raises:
        SettingError: no form has that name.
    """
    if text == STORED:
        return AS_STORED
    weights, _, rest = text.partition("-")
    forms = {form.name: form for form in FORMS if form.name.startswith(weights)}
    if text not in forms:
        raise SettingError(
            f'quantisation "{text}" is unknown',
            f"use {', '.join(WEIGHTS)}" + (_LONGER if rest else ""),
        )
    return forms[text]


@dataclass(frozen=True)
class Choices:
    """Settings for both models of a pair; each model uses the settings that apply to its bits.

    Attributes:
        block: as in `Quantization`.
        embedding: fp32, int8 or int4; None for int8 where the weights are int8 or int4, and fp32 elsewhere.
        head: int8, or "same" as the rest.
        method: as in `Quantization`.

    Raises:
        SettingError: a setting is not supported.
    """

    block: int = 32
    embedding: str | None = None
    head: str = "same"
    method: str = "round"

    def __post_init__(self) -> None:
        Quantization(4, self.block, method=self.method)  # checks block and method
        if self.embedding is not None and self.embedding not in WEIGHTS:
            raise SettingError(
                f'an embedding in "{self.embedding}" is not supported', f"use {', '.join(WEIGHTS)}"
            )
        if self.head not in HEADS:
            raise SettingError(
                f'an LM head in "{self.head}" is not supported', "use int8, or same as the rest"
            )


def with_choices(names: Sequence[str], choices: Choices) -> list[Quantization]:
    """The quantisations called `names`, with `choices` for the settings that the names leave open.

    Raises:
        SettingError: a name is unknown, or a choice applies to none of the quantisations.
    """
    quantizations = [named(name) for name in names]
    if all(quantization.stored for quantization in quantizations) and choices != Choices():
        raise SettingError(
            "block, embedding, lm_head and quant_method are for weights that are rounded, and those "
            "of a GGUF file are taken as they are",
            "leave them out, or choose --quant int4 or int8",
        )
    four = any(quantization.bits == 4 for quantization in quantizations)
    for option, value, usual in (
        ("quant_method", choices.method, "round"),
        ("lm_head", choices.head, "same"),
    ):
        if value != usual and not four:
            stored = " and ".join(dict.fromkeys(names))
            raise SettingError(f"{option} {value} is for int4 weights, not {stored}", "choose --quant int4")
    return [_with(quantization, choices) for quantization in quantizations]


def _with(quantization: Quantization, choices: Choices) -> Quantization:
    if quantization.stored:
        return quantization
    q, four = quantization, quantization.bits == 4
    embedding = max(8, q.bits) if choices.embedding is None else WEIGHTS[choices.embedding]
    return replace(
        q,
        block=choices.block if q.block == 32 and q.bits < 32 else q.block,
        embedding_bits=embedding if q.embedding_bits == 32 else q.embedding_bits,
        head_bits=8 if four and choices.head == "int8" else q.head_bits,
        method=choices.method if four and q.method == "round" else q.method,
    )


def _forms() -> tuple[Quantization, ...]:
    embeddings = EMBEDDING_BITS
    plain = [Quantization(32, 32, e) for e in embeddings]
    int8 = [Quantization(8, b, e) for b, e in itertools.product(BLOCKS, embeddings)]
    heads: tuple[int | None, ...] = (None, 8)
    int4 = [
        Quantization(4, b, e, h, m) for b, e, h, m in itertools.product(BLOCKS, embeddings, heads, METHODS)
    ]
    return (*plain, *int8, *int4)


FORMS = _forms()  # every form that an export can make

FP32, INT8, INT4, INT4_B128 = Quantization(32), Quantization(8), Quantization(4), Quantization(4, 128)
INT4_E8 = Quantization(4, embedding_bits=8)
AS_STORED = Quantization(32, stored=True)
