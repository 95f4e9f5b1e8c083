"""A GGUF file as a checkpoint: configuration and tokenizer are written, weights stay in the file."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnidraft.checkpoints.gguf.config import config_of
from omnidraft.checkpoints.gguf.header import read_header
from omnidraft.checkpoints.gguf.tokenizer import write_tokenizer
from omnidraft.checkpoints.gguf.weights import FLOATS, GgufWeights, matrix_kinds

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


class GgufFile:
    """A GGUF file whose header is sound.

    Attributes:
        name: what the user gave.
        path: the file.
        directory: config.json and the tokenizer, as a checkpoint has them; it is removed with this object.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self._header = read_header(path, name)
        config = config_of(self._header, name)
        self.directory = Path(tempfile.mkdtemp(prefix="omnidraft-gguf-"))
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        (self.directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
        write_tokenizer(self._header.values, name, self.directory)

    @property
    def quantized(self) -> bool:
        """Whether some matrices are codes."""
        return not set(matrix_kinds(self._header)) <= set(FLOATS)

    @property
    def kinds(self) -> list[str]:
        """The types of the matrices, those with the most bytes first."""
        return matrix_kinds(self._header)

    @cached_property
    def config(self) -> PreTrainedConfig:
        """transformers' configuration."""
        from transformers import AutoConfig

        config: PreTrainedConfig = AutoConfig.from_pretrained(
            self.directory, local_files_only=True, trust_remote_code=False
        )
        return config

    @cached_property
    def weights(self) -> GgufWeights:
        """The weights by transformers' names."""
        return GgufWeights(self._header, self.config, self.name)

    def load(self, dtype: Any, attention: str) -> PreTrainedModel:
        """The whole model, dequantised."""
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            self.config, dtype=dtype, attn_implementation=attention
        )
        for name, parameter in model.named_parameters():  # a tied LM head is not there twice
            parameter.data.copy_(self.weights[name].float())
        loaded: PreTrainedModel = model.eval()
        return loaded
