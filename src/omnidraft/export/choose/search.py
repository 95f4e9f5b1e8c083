"""`--quant auto`: the smallest form of a target whose text is nearly as good as the source's.

Candidates are tried in torch in order of their cost, and the export confirms the chosen one in the graph.
Where 4 bits are too few for all products, the products whose rounding changes the distribution most for each
byte keep 8 bits: the change is measured with one group of products rounded at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from omnidraft.export.choose.torch_forms import Step, TorchForms
from omnidraft.export.graph.markers import MarkedSite
from omnidraft.export.quantize.coded import Factors
from omnidraft.export.quantize.form_size import size_of, weight_bytes
from omnidraft.export.quantize.quantization import FP32, INT4, INT8, Quantization
from omnidraft.text_quality import AIM

Calibration = Callable[[Quantization], Factors]

MOST_GROUPS = 64  # that are rounded one at a time; layers side by side share a group where there are more
# A method is not tried where the best form so far loses more than this many times AIM.
_REACH = {"round": math.inf, "k-quant": 2.0, "gptq": 4.0}
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
    sites: Sequence[MarkedSite]  # see `size_of`, as of `tied`
    tied: bool
    parameters: int  # of the model
    calibration: Calibration | None  # for GPTQ; None for a model that is too large for it
    stage: Callable[[str], None]  # called with what is being done
    trials: list[Trial] = field(default_factory=list)  # what was tried, in order

    def candidates(self) -> Iterator[Quantization]:
        """Forms that lose at most `AIM` in torch, the cheapest first; the last one is float32."""
        best = math.inf
        for method, reach in _REACH.items():
            if best > reach * AIM or (method == "gptq" and self.calibration is None):
                continue
            form = Quantization(4, method)
            loss = self._try(form)
            best = min(best, loss)
            if loss <= AIM:
                yield form
        yield from self._mixed()
        if self._try(INT8) <= AIM:
            yield INT8
        yield FP32

    def _try(self, form: Quantization) -> float:
        """The loss of a form, which is noted."""
        factors = None
        if form.method == "gptq":
            assert self.calibration is not None
            factors = dict(self.calibration(form))
        loss = self.forms.loss(form, self._step(f"try {form.name}", "weights"), factors)
        if form.method != "round":
            self.forms.forget(form.method)
        self.trials.append(Trial(form.name, loss, size_of(self.sites, self.tied, form)))
        return loss

    def _step(self, what: str, things: str) -> Step:
        return lambda done, total: self.stage(f"{what}, {done} of {total} {things}")

    def _mixed(self) -> Iterator[Quantization]:
        """4 bits with 8 bits where they are needed: for each margin, the fewest groups that suffice."""
        groups = self._by_sensitivity()
        most = _NEARLY_ALL * size_of(self.sites, self.tied, INT8)
        for margin in _MARGINS:
            form = self._shortest(groups, margin * AIM)
            if form is None or size_of(self.sites, self.tied, form) > most:
                return
            yield form

    def _shortest(self, groups: Sequence[tuple[str, ...]], aim: float) -> Quantization | None:
        """The form with the fewest first groups in 8 bits that loses at most `aim`, by bisection."""
        low, high, found = 0, len(groups), None  # `low` groups are too few
        while high - low > max(1, len(groups) // 32):
            middle = (low + high) // 2
            form = replace(INT4, int8_sites=frozenset(p for group in groups[:middle] for p in group))
            if self._try(form) <= aim:
                high, found = middle, form
            else:
                low = middle
        return found

    def _by_sensitivity(self) -> list[tuple[str, ...]]:
        """Groups of products, the most sensitive for each byte first."""
        groups = groups_of([p for p in self.forms.products if p != "lm_head" or not self.tied])
        tokens = max(_LEAST_TOKENS, int(_WORK / (self.parameters * max(1, len(groups)))))
        measured = self.forms.part(min(tokens, self.forms.tokens))
        costs = {site.name.removesuffix(".weight"): site for site in self.sites}
        gains = []
        for done, group in enumerate(groups):
            self._step("measure the sensitivity", "groups of weights")(done, len(groups))
            more = sum(weight_bytes(costs[p], 8) - weight_bytes(costs[p], 4) for p in group)
            gains.append(measured.score(self.forms.weight_of(group, INT4), table=False).kl / more)
        order = sorted(range(len(groups)), key=lambda place: -gains[place])
        return [groups[place] for place in order]


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
