"""Generation configs of a mode and a sampling config."""

from dataclasses import asdict
from typing import Any

from omnidraft.runtime.decoding.sampling import SamplingConfig
from omnidraft.runtime.session.generation_config import GenerationConfig


def config_of(
    mode: str, sampling: SamplingConfig, max_new_tokens: int = 128, **settings: Any
) -> GenerationConfig:
    """A config with the fields of a sampling config.

    Args:
        mode: one of the modes.
        sampling: how logits become distributions.
        max_new_tokens: output tokens at most.
        settings: other fields of the config.
    """
    return GenerationConfig(mode=mode, max_new_tokens=max_new_tokens, **asdict(sampling), **settings)  # type: ignore[arg-type]
