"""A form of the weights tried in torch: weights are rounded and used at once, and no graph is written.

Products round their inputs to 8 bits in blocks, as onnxruntime's kernel does at accuracy level 4, so that the
figures are those of the graph to a few thousandths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.checkpoints.thin_model import ThinModel, patched, reading
from omnidraft.export.graph.markers import EMBEDDING, MarkedSite
from omnidraft.export.quantize.coded import rounded
from omnidraft.export.quantize.quantization import BLOCK, Quantization
from omnidraft.sample_texts import TextPiece

Step = Callable[[int, int], None]
Weight = Callable[[str], "Tensor | None"]  # the weight [out, in] of a module; None for the source's

_LOGITS = 1 << 28  # bytes of logits in one batch
_KEPT = 1 << 31  # bytes of rounded weights that are kept for the next batch
_TOP = 64  # tokens of a source's distribution that are kept; the others count together
_LEAST = 16  # tokens of a piece


@dataclass(frozen=True)
class Scores:
    """A model on the pieces: mean of -ln p(token), and mean of KL(source, model), both in nats."""

    nll: float
    kl: float


@dataclass(frozen=True)
class _Batch:
    """Pieces of one pass: ids [n, longest], filled up with 0, and which positions predict which tokens."""

    ids: Tensor
    rows: Tensor
    columns: Tensor
    predicted: Tensor


@dataclass(frozen=True)
class _SourceRows:
    """The source's likeliest tokens [n, top], their log-probabilities, and the probability of all others."""

    tokens: Tensor
    logs: Tensor
    rest: Tensor


class TorchForms:
    """Tries forms of a model on fixed pieces.

    Attributes:
        source: of the model itself.
        products: name of each product that may have 4 bits, with its modules.
    """

    def __init__(
        self,
        thin: ThinModel,
        sites: Sequence[MarkedSite],
        pieces: Sequence[TextPiece],
        room: int | None = None,
    ) -> None:
        """
        Args:
            pieces: at least one.
            room: bytes of rounded weights that may be in memory; None for no limit of this machine.
        """
        self._room = _KEPT if room is None else min(_KEPT, room)
        self._thin, self._sites, self._pieces = thin, sites, pieces
        self.products = {
            site.name.removesuffix(".weight"): tuple(part.name for part in site.parts)
            for site in sites
            if site.name != EMBEDDING
        }
        self._site_of = {module: site for site, modules in self.products.items() for module in modules}
        self._rows: dict[int, _SourceRows] = {}
        self._kept: dict[tuple[str, int, str], Tensor] = {}  # by module, bits and method
        self._batches = list(_batches(pieces, thin.model.config.vocab_size))
        self.source = self.score(lambda _: None, table=False)

    def part(self, tokens: int) -> TorchForms:
        """The same model on the beginning of one piece of each kind, together about as many tokens."""
        firsts = {piece.kind: piece for piece in reversed(self._pieces)}
        each = max(_LEAST, tokens // len(firsts))
        cut = [TextPiece(piece.kind, piece.ids[: each + 1]) for piece in firsts.values()]
        part = TorchForms(self._thin, self._sites, cut, self._room)
        part._kept = self._kept
        return part

    @property
    def tokens(self) -> int:
        """Positions that are scored."""
        return sum(len(batch.predicted) for batch in self._batches)

    def loss(self, form: Quantization, step: Step = lambda *_: None, factors: Factors | None = None) -> float:
        """The perplexity in a form over the source's, less 1.

        Args:
            step: called with (products done, all products) in the first pass.
        """
        scores = self.score(self.weights(form, step, factors), table=form.bits < 32)
        return float(np.exp(min(scores.nll - self.source.nll, 50.0)) - 1.0)

    def weights(
        self, form: Quantization, step: Step = lambda *_: None, factors: Factors | None = None
    ) -> Weight:
        """The weights of all products in a form."""
        seen: set[str] = set()

        def weight(module: str) -> Tensor | None:
            if form.bits == 32:
                return None
            seen.add(module)
            step(len(seen), len(self._site_of))
            return self._rounded(
                module, form, None if factors is None else factors.get(self._site_of[module])
            )

        return weight

    def weight_of(self, products: Sequence[str], form: Quantization) -> Weight:
        """The weights of some products in a form; all others are the source's."""
        return lambda module: self._rounded(module, form) if self._site_of[module] in products else None

    def _rounded(self, module: str, form: Quantization, factor: Any = None) -> Tensor:
        site = self._site_of[module]
        bits = form.table_bits if site == "lm_head" and self._thin.tied else form.bits_of(site)
        method = form.method if bits == 4 else "round"
        key = module, bits, method
        if key not in self._kept:
            stored = self._thin.stored[module].weight.float().numpy()
            values = rounded(stored, bits, method, factor if bits == 4 else None).values()
            found = torch.from_numpy(np.ascontiguousarray(values[:, : stored.shape[1]]))
            if sum(each.nbytes for each in self._kept.values()) + found.nbytes > self._room:
                return found
            self._kept[key] = found
        return self._kept[key]

    def forget(self, method: str | None = None) -> None:
        """Free the weights that a method rounded; those of all methods when None."""
        for key in [key for key in self._kept if method in (None, key[2])]:
            del self._kept[key]

    def score(self, weight: Weight, *, table: bool) -> Scores:
        """Score the pieces with some weights of the products, and an embedding in 8 bits (`table`) or not."""
        nll = kl = 0.0
        with computing_with(self._thin, weight, table=table), torch.inference_mode():
            for place, batch in enumerate(self._batches):
                logits = self._thin.model(input_ids=batch.ids).logits[batch.rows, batch.columns]
                logs = torch.log_softmax(logits.float(), dim=-1)
                nll -= float(logs.gather(1, batch.predicted[:, None]).double().sum())
                if place not in self._rows:
                    self._rows[place] = _source_rows(logs)
                kl += _divergence(self._rows[place], logs)
        return Scores(nll / self.tokens, kl / self.tokens)


Factors = Mapping[str, Any]  # `inverse_factor` of the inputs of each product


def _batches(pieces: Sequence[TextPiece], vocab_size: int) -> Iterator[_Batch]:
    """Pieces of similar length together, with no more logits than fit in memory."""
    held: list[Sequence[int]] = []
    for ids in sorted((piece.ids for piece in pieces), key=len):
        if held and 4 * vocab_size * len(ids) * (len(held) + 1) > _LOGITS:
            yield _batch(held)
            held = []
        held.append(ids)
    yield _batch(held)


def _batch(pieces: Sequence[Sequence[int]]) -> _Batch:
    longest = max(map(len, pieces))
    ids = torch.zeros((len(pieces), longest), dtype=torch.int64)  # attention never sees what comes later
    for row, piece in enumerate(pieces):
        ids[row, : len(piece)] = torch.tensor(list(piece))
    places = [(row, column) for row, piece in enumerate(pieces) for column in range(len(piece) - 1)]
    rows, columns = torch.tensor(places).T
    return _Batch(ids, rows, columns, ids[rows, columns + 1])


def _source_rows(logs: Tensor) -> _SourceRows:
    top = torch.topk(logs, min(_TOP, logs.shape[1]), dim=1)
    return _SourceRows(top.indices, top.values, _rest(top.values))


def _rest(logs: Tensor) -> Tensor:
    """The probability [n] of all tokens but those whose log-probabilities [n, top] are given."""
    return (1.0 - logs.exp().sum(dim=1)).clamp_min(1e-9)


def _divergence(source: _SourceRows, logs: Tensor) -> float:
    """KL(source, model) summed over the positions; tokens outside of the likeliest count as one token."""
    ours = logs.gather(1, source.tokens)
    of_top = (source.logs.exp() * (source.logs - ours)).sum(dim=1)
    of_rest = source.rest * (source.rest.log() - _rest(ours).log())
    return float((of_top + of_rest).double().sum())


@contextmanager
def computing_with(thin: ThinModel, weight: Weight, *, table: bool) -> Iterator[None]:
    """Within it products use `weight`, and rounded inputs where that is not the source's.

    Args:
        table: whether the embedding is rounded to 8 bits.
    """

    with reading(thin):
        product, rows_of = nn.Linear.forward, nn.Embedding.forward

        def linear(module: Any, x: Tensor) -> Tensor:
            found = weight(module.site)
            if found is None:
                return product(module, x)
            bias = thin.stored[module.site].bias
            return nn.functional.linear(_int8(x), found, None if bias is None else bias.float())

        def embedding(module: Any, ids: Tensor) -> Tensor:
            rows = rows_of(module, ids)
            return _rounded_rows(rows) if table else rows

        with patched(nn.Linear, "forward", linear), patched(nn.Embedding, "forward", embedding):
            yield


def _int8(x: Tensor) -> Tensor:
    """Inputs rounded to 8 bits in blocks, as the kernel rounds them."""
    width = x.shape[-1]
    blocks = nn.functional.pad(x, (0, -width % BLOCK)).reshape(*x.shape[:-1], -1, BLOCK)
    scale = blocks.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / 127.0
    back: Tensor = (torch.round(blocks / scale) * scale).flatten(-2)[..., :width]
    return back


def _rounded_rows(rows: Tensor) -> Tensor:
    """Rows of an embedding as they come out of its codes."""
    width = rows.shape[-1]
    if width % BLOCK:
        return rows
    values = rounded(rows.reshape(-1, width).numpy(), 8).values()
    return torch.from_numpy(values).reshape(rows.shape)
