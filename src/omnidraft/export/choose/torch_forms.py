"""A form of the weights tried in torch: weights are rounded and used at once, and no graph is written.

Products round their inputs to 8 bits in blocks, as onnxruntime's kernel does at accuracy level 4, so that the
figures are those of the graph to a few thousandths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from omnidraft.checkpoints.patched import patched
from omnidraft.checkpoints.thin_model import ThinModel
from omnidraft.export.choose.rounded_pass import Weight, computing_with, source_product
from omnidraft.export.graph.markers import EMBEDDING, MarkedSite
from omnidraft.export.quantize.gptq import inverse_factor
from omnidraft.export.quantize.quantization import Quantization
from omnidraft.export.quantize.rounded import values_as
from omnidraft.sample_texts import TextPiece

Step = Callable[[int, int], None]

_LOGITS = 1 << 28  # bytes of logits in one batch
_KEPT = 1 << 31  # bytes of rounded weights that are kept for the next batch
_HESSIANS = 1 << 30  # bytes of Hessians in memory
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
        self._kept: dict[tuple[str, int, str, int], Tensor] = {}  # by module, bits, method and block
        self._batches = list(_batches(pieces, thin.model.config.vocab_size))
        self.source = self.score(lambda _: None, 0)

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
        scores = self.score(self.weights(form, step, factors), form.embedding_bits)
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
            return self._rounded(module, form, None if factors is None else factors.get(module))

        return weight

    def weight_of(self, products: Sequence[str], form: Quantization) -> Weight:
        """The weights of some products in a form; all others are the source's."""
        return lambda module: self._rounded(module, form) if self._site_of[module] in products else None

    def _rounded(self, module: str, form: Quantization, factor: Any = None) -> Tensor:
        site = self._site_of[module]
        bits = form.bits_of(site)
        if site == "lm_head" and self._thin.tied and form.one_table:
            bits = form.embedding_bits
        method = form.method if bits == 4 else "round"
        key = module, bits, method, form.block
        if key not in self._kept:
            stored = self._thin.stored[module].weight.float().numpy()
            block = form.block_for(stored.shape[1])
            found = torch.from_numpy(values_as(stored.T, bits, block, method, factor))
            if sum(each.nbytes for each in self._kept.values()) + found.nbytes > self._room:
                return found
            self._kept[key] = found
        return self._kept[key]

    def forget(self, method: str | None = None) -> None:
        """Free the weights that a method rounded; those of all methods when None."""
        for key in [key for key in self._kept if method in (None, key[2])]:
            del self._kept[key]

    def score(self, weight: Weight, embedding_bits: int) -> Scores:
        """Score the pieces.

        Args:
            embedding_bits: of the embedding; 0 or 32 for the source's.
        """
        nll = kl = 0.0
        with computing_with(self._thin, weight, embedding_bits), torch.inference_mode():
            for place, batch in enumerate(self._batches):
                logits = self._thin.model(input_ids=batch.ids).logits[batch.rows, batch.columns]
                logs = torch.log_softmax(logits.float(), dim=-1)
                nll -= float(logs.gather(1, batch.predicted[:, None]).double().sum())
                if place not in self._rows:
                    self._rows[place] = _source_rows(logs)
                kl += _divergence(self._rows[place], logs)
        return Scores(nll / self.tokens, kl / self.tokens)

    def hessians(self, rows: Sequence[Sequence[int]], products: Sequence[str], step: Step) -> Hessians:
        """X^T X of the inputs of some products over calibration rows, by product, float32 [width, width]."""
        sums: dict[str, Tensor] = {}
        wanted = set(products)

        def linear(module: Any, x: Tensor) -> Tensor:
            site = self._site_of[module.site]
            if site in wanted and module.site == self.products[site][0]:
                flat = x.reshape(-1, x.shape[-1])
                product = flat.T @ flat
                sums[site] = sums[site] + product if site in sums else product
            return source_product(self._thin, module, x)

        reading = computing_with(self._thin, lambda _: None, 0)
        with reading, patched(nn.Linear, "forward", linear), torch.inference_mode():
            for done, row in enumerate(rows):
                step(done, len(rows))
                self._thin.model(input_ids=torch.tensor([list(row)]))
        return {site: total.numpy() for site, total in sums.items()}

    def factors(self, form: Quantization, rows: Sequence[Sequence[int]], step: Step) -> Factors:
        """What GPTQ needs of each module that gets 4 bits (`inverse_factor`), from calibration rows."""
        factors: dict[str, Any] = {}
        for group in self._groups(form):
            for site, hessian in self.hessians(rows, group, step).items():
                factor = inverse_factor(hessian)
                factors |= dict.fromkeys(self.products[site], factor)
        return factors

    def _groups(self, form: Quantization) -> Iterator[list[str]]:
        """Products of 4 bits, in groups whose Hessians fit in memory."""
        group, held = list[str](), 0
        for site, modules in self.products.items():
            tied = site == "lm_head" and self._thin.tied and form.one_table
            if form.bits_of(site) != 4 or tied:
                continue
            size = 4 * self._thin.stored[modules[0]].weight.shape[1] ** 2
            if group and held + size > _HESSIANS:
                yield group
                group, held = [], 0
            group.append(site)
            held += size
        if group:
            yield group


Hessians = dict[str, Any]
Factors = Mapping[str, Any]


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
