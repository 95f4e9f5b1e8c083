"""How weights are stored, as a value with a name such as fp32, int8 or int4-gptq."""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.errors import SettingError

METHODS = ("round", "rtn", "k-quant", "gptq")  # of 4-bit weights; see grids.py and gptq.py
BLOCK = 32  # values of a row that share a scale
STORED = "stored"  # the name of weights that are taken as a GGUF file has them


@dataclass(frozen=True)
class Quantization:
    """How weights are stored; where products are rounded, the embedding and a tied LM head are in int8."""

    bits: int  # 32 (float), 8 or 4
    method: str = "round"  # how 4-bit weights are found; 8-bit weights are always rounded
    # products that keep 8 bits where the rest has 4, such as `layers.3.down`: chosen by measurement for one
    # model (`--quant auto`), so a name tells only their number
    int8_sites: frozenset[str] = frozenset()
    stored: bool = False  # take the codes of a GGUF file as they are, and leave floats in float32

    def __post_init__(self) -> None:
        assert self.bits in (32, 8, 4) and self.method in METHODS, self
        assert self.bits == 4 or not (self.int8_sites or self.method != "round"), "only 4 bits have methods"
        assert not self.stored or self.bits == 32, "stored weights are not rounded"

    @property
    def name(self) -> str:
        """The short name, which `named` reads unless there are `int8_sites`."""
        if self.stored:
            return STORED
        method = "" if self.method == "round" else f"-{self.method}"
        mixed = f"-m{len(self.int8_sites)}" if self.int8_sites else ""
        return ("fp32" if self.bits == 32 else f"int{self.bits}") + method + mixed

    @property
    def table_bits(self) -> int:
        """The bits of the embedding, and of an LM head that is tied to it."""
        return 8 if self.bits < 32 else 32

    def bits_of(self, product: str) -> int:
        """The bits of a product by its name, if it is not a tied LM head."""
        return 8 if product in self.int8_sites else self.bits


FP32, INT8, INT4 = Quantization(32), Quantization(8), Quantization(4)
AS_STORED = Quantization(32, stored=True)
FORMS = (FP32, INT8, *(Quantization(4, method) for method in METHODS))  # that a name chooses


def named(text: str) -> Quantization:
    """The quantisation whose `name` is `text`."""
    for form in (*FORMS, AS_STORED):
        if form.name == text:
            return form
    raise SettingError(f'quantisation "{text}" is unknown', f"use {', '.join(form.name for form in FORMS)}")
