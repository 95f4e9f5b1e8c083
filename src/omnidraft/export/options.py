"""How to export: the settings of one export, checked when they are made."""

from dataclasses import dataclass

from omnidraft.errors import SettingError
from omnidraft.export.graph.write import EXTERNAL_ABOVE
from omnidraft.export.npu.npu import NpuOptions
from omnidraft.export.quantize.quantization import FP32, Quantization
from omnidraft.runtime.bundle.lora_sites import MAX_RANK

USUAL_RANK = 16  # LoRA rank of the training step; a higher rank slows decoding (design: at most 16 on phones)
MOST_RANK = MAX_RANK // 3  # one product has up to three packed parts


@dataclass(frozen=True)
class Options:
    """How to export.

    Raises:
        SettingError: a rank for models that take no adapters.
    """

    quantization: Quantization = FP32  # how the target's weights are stored
    # how the drafter's weights are stored; None for the same as the target's
    drafter_quantization: Quantization | None = None
    # KV positions of the target; None for a usual length (see `context_lengths`)
    max_length: int | None = None
    overwrite: bool = False  # replace a bundle that exists
    # bytes of weights above which the weights of a graph get a file of their own
    external_above: int = EXTERNAL_ABOVE
    pairs: tuple[str, ...] = ()  # control tokens that mean the same to both models, each as `DRAFTER=TARGET`
    # bytes of float32 weights that the checks may hold; None for the free memory
    check_memory: int | None = None
    lora_drafter: bool = True  # whether the drafter's graph takes adapters
    lora_target: bool = False  # whether the target's graph takes adapters
    train_rank: int | None = None  # LoRA rank of the drafter's training step; None for no training step
    npu: NpuOptions | None = None  # static graphs for accelerators; None for none
    # texts for the method gptq, beside the model's own, and for quantised static graphs; None for none, and
    # for the built-in prompts
    calibration: tuple[str, ...] | None = None
    # choose the target's form, the smallest one whose text is nearly as good as the source's
    search: bool = False
    half_kv: bool = False  # whether the target's keys and values are float16, not float32

    def __post_init__(self) -> None:
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

    def has_half_kv(self, role: str) -> bool:
        """Whether the keys and values of one model of the pair are float16."""
        return self.half_kv and role == "target"

    @property
    def name(self) -> str:
        """The quantisation of the pair, for messages."""
        target, drafter = self.quantization_of("target").name, self.quantization_of("drafter").name
        return target if target == drafter else f"{target} with an {drafter} drafter"


DEFAULTS = Options()
