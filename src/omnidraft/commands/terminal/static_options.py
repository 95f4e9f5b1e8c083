"""The settings of static graphs: `--npu`, and those that are for it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from omnidraft.errors import SettingError

if TYPE_CHECKING:
    from omnidraft.export.npu.npu import NpuOptions


def static_options(
    names: list[str],
    lengths: tuple[int | None, int | None, int],
    calibration: tuple[str, ...] | None,
    lora_rank: int | None,
) -> "NpuOptions | None":
    """Options of the static graphs; None where no accelerator is named.

    Args:
        lengths: kv_length, prefill_chunk and num_draft_tokens, in tokens.
        calibration: texts; built-in prompts when None.
        lora_rank: that static float graphs take.

    Raises:
        SettingError: an option of static graphs without --npu, or an unknown accelerator.
    """
    from omnidraft.export.npu.npu import NpuOptions
    from omnidraft.export.npu.npu_providers import accelerators

    providers = accelerators(names)
    if not providers:
        values = {"kv_length": lengths[0], "prefill_chunk": lengths[1], "npu_lora_rank": lora_rank}
        for option, value in values.items():
            if value is not None:
                raise SettingError(f"{option} {value} is for --npu", f"add that, or leave {option} out")
        return None
    npu = NpuOptions(providers, *lengths, lora_rank=lora_rank)
    return npu if calibration is None else replace(npu, calibration=calibration)
