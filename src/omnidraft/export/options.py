"""How to export: the settings of one export, checked when they are made."""

from dataclasses import dataclass

from omnidraft.errors import SettingError
from omnidraft.export.graph.write import EXTERNAL_ABOVE
from omnidraft.export.npu.npu import NpuOptions
from omnidraft.export.quantize.quantize import FP32, Quantization
from omnidraft.runtime.bundle.head import MAX_BLOCKS
from omnidraft.runtime.bundle.lora_sites import MAX_RANK

USUAL_RANK = 16  # LoRA rank of the training step; a higher rank slows decoding (design: at most 16 on phones)
MOST_RANK = MAX_RANK // 3  # one product has up to three packed parts


@dataclass(frozen=True)
class Options:
    """How to export.

    Attributes:
        quantization: how the target's weights are stored.
        drafter_quantization: how the drafter's weights are stored; None for the same as the target's.
        max_length: KV positions of the target; None for a usual length (see `context_lengths`).
        overwrite: replace a bundle that exists.
        external_above: bytes of weights above which the weights of a graph get a file of their own.
        pairs: control tokens that mean the same to both models, each as `DRAFTER=TARGET`.
        check_memory: bytes of float32 weights that the checks may hold; None for the free memory.
        lora_drafter: whether the drafter's graph takes adapters.
        lora_target: whether the target's graph takes adapters.
        head_blocks: blocks of the drafter's adaptive head, 1 to 3; None for no head.
        train_rank: LoRA rank of the drafter's training step; None for no training step.
        npu: static graphs for accelerators; None for none.
        calibration: texts for the method gptq and for quantised static graphs; None for the built-in prompts.
            Every fourth one is kept back, and the target is measured on it.
        search: take `quantization` as the first of several forms of the target, and choose the smallest one
            whose text is nearly as good as the source's; the drafter's form must be given then.

    Raises:
        SettingError: a rank for models that take no adapters, or a number of head blocks out of range.
    """

    quantization: Quantization = FP32
    drafter_quantization: Quantization | None = None
    max_length: int | None = None
    overwrite: bool = False
    external_above: int = EXTERNAL_ABOVE
    pairs: tuple[str, ...] = ()
    check_memory: int | None = None
    lora_drafter: bool = True
    lora_target: bool = False
    head_blocks: int | None = 1
    train_rank: int | None = None
    npu: NpuOptions | None = None
    calibration: tuple[str, ...] | None = None
    search: bool = False

    def __post_init__(self) -> None:
        if self.search and (self.quantization.bits != 4 or self.drafter_quantization is None):
            raise SettingError(
                f"a search that begins with {self.quantization.name} is not supported",
                "begin with int4, and give the drafter's form",
            )
        if self.head_blocks is not None and not 1 <= self.head_blocks <= MAX_BLOCKS:
            raise SettingError(
                f"a head of {self.head_blocks} blocks is outside 1..{MAX_BLOCKS}",
                "give 1, or leave it out with --no-head",
            )
        if self.train_rank is not None and not self.lora_drafter:
            raise SettingError(
                "--train-step learns an adapter of the drafter, which lora_drafter = false keeps out",
                "leave one of the two out",
            )
        if self.train_rank is not None and not 1 <= self.train_rank <= MOST_RANK:
            raise SettingError(
                f"train_rank {self.train_rank} is outside 1..{MOST_RANK}", f"{USUAL_RANK} is usual"
            )
        if self.npu is not None and self.npu.lora_rank and not (self.lora_drafter or self.lora_target):
            raise SettingError(
                f"npu_lora_rank {self.npu.lora_rank} makes graphs for adapters, which lora_drafter keeps out",
                "leave one of the two out",
            )

    def quantization_of(self, role: str) -> Quantization:
        """How the weights of one model of the pair are stored."""
        return self.quantization if role == "target" else self.drafter_quantization or self.quantization

    def takes_adapters(self, role: str) -> bool:
        """Whether the graph of one model of the pair takes adapters."""
        return self.lora_target if role == "target" else self.lora_drafter

    @property
    def name(self) -> str:
        """The quantisation of the pair, for messages."""
        target, drafter = self.quantization_of("target").name, self.quantization_of("drafter").name
        return target if target == drafter else f"{target} with an {drafter} drafter"


DEFAULTS = Options()
