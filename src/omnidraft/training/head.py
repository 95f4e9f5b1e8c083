"""The adaptive head: how likely a draft token is to be accepted, from the drafter's own state.

One number for each position, sigmoid(f(h)), with h the drafter's last hidden state (after the final norm,
what the LM head reads) at the position whose *input* is the draft token. method section 5.3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError

NEVER_STOP = 20.0  # the bias of an untrained head: sigmoid(20) is 1 to nine digits, so it stops nothing
MAX_BLOCKS = 3


class AcceptanceHead(nn.Module):
    """Blocks x + SiLU(x W), then x w + b.

    Attributes:
        blocks: W of each block, [hidden, hidden], input by output as in adapter files.
        weight: w, [hidden, 1]. bias: b, [1].
    """

    def __init__(self, hidden: int, blocks: int = 1) -> None:
        """All zeros, and a bias that accepts everything: a head that was never trained changes nothing.

        Raises:
            SettingError: a number of blocks outside 1..3.
        """
        super().__init__()
        if not 1 <= blocks <= MAX_BLOCKS:
            raise SettingError(f"a head of {blocks} blocks is outside 1..{MAX_BLOCKS}; 1 is usual")
        self.blocks = nn.ParameterList(nn.Parameter(torch.zeros(hidden, hidden)) for _ in range(blocks))
        self.weight = nn.Parameter(torch.zeros(hidden, 1))
        self.bias = nn.Parameter(torch.full((1,), NEVER_STOP))

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [...] of acceptance for hidden states [..., hidden]."""
        x = hidden
        for block in self.blocks:
            x = x + nn.functional.silu(x @ block)
        found: Tensor = (x @ self.weight)[..., 0] + self.bias
        return found
