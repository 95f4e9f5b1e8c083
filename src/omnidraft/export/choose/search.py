"""`--quant auto`: the smallest form of a target whose text is nearly as good as the source's.

Candidates are tried in torch in order of their cost, and the export confirms the chosen one in the graph.
Where 4 bits are too few for all products, the products whose rounding changes the distribution most for each
byte keep 8 bits: the change is measured with one group of products rounded at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from omnidraft.export.choose.torch_forms import Step, TorchForms
from omnidraft.export.graph.markers import MarkedSite
from omnidraft.export.quantize.form_size import product_bytes, size_of
from omnidraft.export.quantize.quantization import Quantization
from omnidraft.text_quality import AIM

Rows = Sequence[Sequence[int]]

MOST_GROUPS = 64  # that are rounded one at a time; layers side by side share a group where there are more
_REACH = {"k-quant": 2.0, "gptq": 4.0}  # a method that has this many times AIM to gain is not tried
_MARGINS = (0.9, 0.5)  # of AIM, for mixed forms: the graph may lose a little more than torch does
_SENSITIVE_TOKENS = 384  # that sensitivity is measured on, for 120 groups of a model of 135M parameters
_WORK = 135e6 * _SENSITIVE_TOKENS * MOST_GROUPS
_LEAST_TOKENS = 128
_NEARLY_ALL = 0.97  # of the bytes of int8: a mixed form that takes more is not worth its name


@dataclass(frozen=True)
class Trial:
    """A form that was tried: its name, the perplexity that it loses, and its bytes on disk."""

    form: str
    loss: float
    bytes: int


@dataclass
class FormSearch:
    """The search for one model."""

    forms: TorchForms  # tries forms
    # sites, tied: of the model; see `size_of`
    sites: Sequence[MarkedSite]
    tied: bool
    first: Quantization  # the 4-bit form that the others vary: its block, embedding and head
    parameters: int  # of the model
    # gives the rows that GPTQ calibrates on; None for a model that is too large for GPTQ
    calibration: Callable[[], Rows] | None
    stage: Callable[[str], None]  # called with what is being done
    trials: list[Trial] = field(default_factory=list)  # what was tried, in order

    def candidates(self) -> Iterator[Quantization]:
        """Forms that lose at most `AIM` in torch, the cheapest first; the last one is float32."""
        best = float("inf")
        for method in ("round", "k-quant", "gptq"):
            unable = method == "gptq" and self.calibration is None
            if unable or best > _REACH.get(method, float("inf")) * AIM:
                continue
            form = replace(self.first, method=method)
            loss = self._try(form)
            best = min(best, loss)
            if loss <= AIM:
                yield form
        yield from self._mixed()
        int8 = self._int8
        if self._try(int8) <= AIM:
            yield int8
        yield Quantization(32)

    @property
    def _int8(self) -> Quantization:
        return Quantization(8, self.first.block, max(8, self.first.embedding_bits))

    def _try(self, form: Quantization) -> float:
        """The loss of a form, which is noted."""
        factors = None
        if form.method == "gptq":
            assert self.calibration is not None
            rows = self.calibration()
            factors = self.forms.factors(form, rows, self._step(f"read its own text for {form.name}", "rows"))
        loss = self.forms.loss(form, self._step(f"try {form.name}", "weights"), factors)
        self.trials.append(Trial(form.name, loss, size_of(self.sites, self.tied, form).stored))
        if form.method != "round":
            self.forms.forget(form.method)
        return loss

    def _step(self, what: str, things: str) -> Step:
        return lambda done, total: self.stage(f"{what}, {done} of {total} {things}")

    def _mixed(self) -> Iterator[Quantization]:
        """4 bits with 8 bits where they are needed: for each margin, the fewest groups that suffice."""
        base = replace(self.first, method="round")
        groups = self._by_sensitivity(base)
        most = _NEARLY_ALL * size_of(self.sites, self.tied, self._int8).stored
        for margin in _MARGINS:
            form = self._shortest(base, groups, margin * AIM)
            if form is None or size_of(self.sites, self.tied, form).stored > most:
                return
            yield form

    def _shortest(
        self, base: Quantization, groups: Sequence[tuple[str, ...]], aim: float
    ) -> Quantization | None:
        """The form with the fewest first groups in 8 bits that loses at most `aim`, by bisection."""
        low, high, found = 0, len(groups), None  # `low` groups are too few
        while high - low > max(1, len(groups) // 32):
            middle = (low + high) // 2
            form = with_int8(base, [site for group in groups[:middle] for site in group])
            if self._try(form) <= aim:
                high, found = middle, form
            else:
                low = middle
        return found

    def _by_sensitivity(self, base: Quantization) -> list[tuple[str, ...]]:
        """Groups of products, the most sensitive for each byte first."""
        groups = groups_of([p for p in self.forms.products if not self._has_8(p, base)])
        tokens = max(_LEAST_TOKENS, int(_WORK / (self.parameters * max(1, len(groups)))))
        measured = self.forms.part(min(tokens, self.forms.tokens))
        costs = {site.name.removesuffix(".weight"): site for site in self.sites}
        gains = []
        for done, group in enumerate(groups):
            self._step("measure the sensitivity", "groups of weights")(done, len(groups))
            more = sum(product_bytes(costs[p], 8, base) - product_bytes(costs[p], 4, base) for p in group)
            gains.append(measured.score(self.forms.weight_of(group, base), 0).kl / more)
        order = sorted(range(len(groups)), key=lambda place: -gains[place])
        return [groups[place] for place in order]

    def _has_8(self, product: str, base: Quantization) -> bool:
        """Whether a product has 8 bits in the 4-bit form, too: a head that is the embedding, or asked for."""
        return product == "lm_head" and (base.head_bits == 8 or (self.tied and base.one_table))


def with_int8(base: Quantization, products: Sequence[str]) -> Quantization:
    """A 4-bit form with 8 bits for some products."""
    head = 8 if "lm_head" in products else base.head_bits
    return replace(base, head_bits=head, int8_sites=frozenset(products) - {"lm_head"})


def groups_of(products: Sequence[str]) -> list[tuple[str, ...]]:
    """Products in at most `MOST_GROUPS` groups: the same product of layers side by side."""
    layers = 1
    while True:
        groups: dict[tuple[str, int], list[str]] = {}
        for product in products:
            match = re.fullmatch(r"layers\.(\d+)\.(.+)", product)
            key = (match[2], int(match[1]) // layers) if match else (product, 0)
            groups.setdefault(key, []).append(product)
        if len(groups) <= MOST_GROUPS or layers > len(products):
            return [tuple(group) for group in groups.values()]
        layers += 1
