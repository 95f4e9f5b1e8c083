"""The adaptive head: how likely a draft token is to be accepted, from the drafter's own state.

One number for each position, sigmoid(f(h)), with h the drafter's last hidden state (after the final norm,
what the LM head reads) at the position whose *input* is the draft token. method section 5.3. Its odds correct
those of the drafter's own probability of that token, which a state after the token hardly tells.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from omnidraft.errors import SettingError
from omnidraft.runtime.bundle.head import BIAS, MAX_BLOCKS, NEVER_STOP, WEIGHT, Head, HeadShape, block_name


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
            raise SettingError(f"a head of {blocks} blocks is outside 1..{MAX_BLOCKS}", "1 is usual")
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


def head_loss(
    logits: Tensor, labels: Tensor, reject_weight: float = 6.0, known: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Binary cross-entropy in which what is refused weighs more, and what it is divided by.

    Weighing moves the best answer for a label y to odds y / (reject_weight (1 - y)). That shift is known,
    so it is taken off inside the loss: the logits themselves are those of the probability.

    Args:
        logits: of the head plus the log-odds of the drafter's own probability (`runtime.head.chance`), [N].
        labels: how likely the N draft tokens are to be accepted, [N].
        reject_weight: of the part that is refused.
        known: which of them count, [N]; all when None.
    """
    refused = reject_weight * (1.0 - labels)
    if known is not None:
        labels, refused = labels * known, refused * known
    shifted = logits - math.log(reject_weight)
    losses = labels * nn.functional.softplus(-shifted) + refused * nn.functional.softplus(shifted)
    return losses.sum(), (labels + refused).sum().detach()


def head_of(head: AcceptanceHead) -> Head:
    """What was trained, as adapters carry it."""
    found = {name: tensor.detach().cpu().float().numpy().copy() for name, tensor in _named(head).items()}
    return Head(found)


def load_head(head: AcceptanceHead, trained: Head) -> None:
    """Go on from a head of an adapter.

    Raises:
        AdapterError: `shape`, where it has other sizes; nothing is changed.
    """
    trained.check_fits(HeadShape(len(head.weight), len(head.blocks)))
    with torch.no_grad():
        for name, tensor in _named(head).items():
            tensor.copy_(torch.from_numpy(trained.tensors[name]))


def _named(head: AcceptanceHead) -> dict[str, Tensor]:
    """Its parameters by the names of the graph's inputs."""
    return {block_name(i): block for i, block in enumerate(head.blocks)} | {
        WEIGHT: head.weight,
        BIAS: head.bias,
    }
