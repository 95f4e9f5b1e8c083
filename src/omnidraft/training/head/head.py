"""The adaptive head: how likely a draft token is to be accepted, from the drafter's own state.

The head gives one number for each position, sigmoid(f(h)), with h the drafter's last hidden state (after the
final norm, the input of the LM head) at the position whose *input* is the draft token (method section 5.3).
Its odds correct the odds of the drafter's own probability of that token, because a state after the token
contains almost nothing of that probability.
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
        weight: w, [hidden, 1].
        bias: b, [1].
    """

    def __init__(self, hidden: int, blocks: int = 1) -> None:
        """All zeros, and a bias that accepts every token: an untrained head changes nothing.

        Args:
            hidden: width of the drafter's hidden states.
            blocks: number of blocks.

        Raises:
            SettingError: `blocks` is outside 1..3.
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
        logits: Tensor = (x @ self.weight)[..., 0] + self.bias
        return logits


def head_loss(
    logits: Tensor, labels: Tensor, reject_weight: float = 6.0, known: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Binary cross-entropy with a weight on refusals.

    The weight moves the optimum for a label y to odds y / (reject_weight (1 - y)). The shift is constant, so
    the loss subtracts it from the logits: the optimal logits are those of the probability itself.

    Args:
        logits: of the head plus the log-odds of the drafter's own probability, [N]; see `survival_of`
            in runtime/decoding/early_stop.py.
        labels: how likely the N draft tokens are to be accepted, [N].
        reject_weight: weight of the refused part, 1 - label; the accepted part weighs 1.
        known: which tokens count, [N]; all when None.

    Returns:
        the sum of the losses, and the sum of the weights, by which a caller divides it.
    """
    refused = reject_weight * (1.0 - labels)
    if known is not None:
        labels, refused = labels * known, refused * known
    shifted = logits - math.log(reject_weight)
    losses = labels * nn.functional.softplus(-shifted) + refused * nn.functional.softplus(shifted)
    return losses.sum(), (labels + refused).sum().detach()


def head_of(head: AcceptanceHead) -> Head:
    """The trained head as adapters store it; copies."""
    return Head({name: tensor.detach().cpu().float().numpy().copy() for name, tensor in _named(head).items()})


def load_head(head: AcceptanceHead, trained: Head) -> None:
    """Copy an adapter's head into a head, to continue its training.

    Raises:
        AdapterError: fault `shape`: the sizes differ; nothing is changed.
    """
    trained.check_fits(HeadShape(len(head.weight), len(head.blocks)))
    with torch.no_grad():
        for name, tensor in _named(head).items():
            tensor.copy_(torch.from_numpy(trained.tensors[name]))


def _named(head: AcceptanceHead) -> dict[str, Tensor]:
    """The parameters by the names of the graph's inputs."""
    return {block_name(i): block for i, block in enumerate(head.blocks)} | {
        WEIGHT: head.weight,
        BIAS: head.bias,
    }
